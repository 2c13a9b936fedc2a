# SPDX-License-Identifier: Apache-2.0
# Event files for TensorBoard: read by python3-protobuf with TensorFlow's messages, checked by python3-crc32c. They
# contain the losses of metrics.jsonl, the pictures and the settings; a resumed run records the step from which it
# resumes.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
python=/usr/bin/python3     # that of the packages
$python -c 'import crc32c, google.protobuf' || { echo "python3-protobuf or python3-crc32c is not installed"; exit 77; }
cat >run.json <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons"},"batch":{"global":4},
 "steps":4,"tensorboard":true,"sample":{"after":true,"count":2}},"checkpoint":{"every":{"steps":2},"dir":"$WORK/c"}}
JSON
jobctl-train train --spec run.json >first.log
sed 's/"steps":4/"steps":6/' run.json >more.json
jobctl-train train --spec more.json >second.log
[ "$(ls c/tensorboard | wc -l)" = 2 ]
cat >read.py <<'PY'
import crc32c, glob, json, struct, sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

F = descriptor_pb2.FieldDescriptorProto
KINDS = {"double": F.TYPE_DOUBLE, "float": F.TYPE_FLOAT, "int": F.TYPE_INT64, "text": F.TYPE_STRING, "bytes": F.TYPE_BYTES}
MESSAGES = {
    "Event": [("wall_time", 1, "double"), ("step", 2, "int"), ("file_version", 3, "text"), ("summary", 5, "Summary"),
              ("session_log", 7, "SessionLog")],
    "SessionLog": [("status", 1, "int")],
    "Summary": [("value", 1, "*Value")],
    "Value": [("tag", 1, "text"), ("simple_value", 2, "float"), ("image", 4, "Image"), ("metadata", 9, "Metadata")],
    "Image": [("height", 1, "int"), ("width", 2, "int"), ("colorspace", 3, "int"), ("encoded_image_string", 4, "bytes")],
    "Metadata": [("plugin_data", 1, "PluginData")],
    "PluginData": [("plugin_name", 1, "text"), ("content", 2, "bytes")],
    "HParams": [("session_start_info", 3, "Start")],
    "Start": [("hparams", 1, "*Entry"), ("start_time_secs", 5, "double")],
    "Entry": [("key", 1, "text"), ("value", 2, ".google.protobuf.Value")],
}
proto = descriptor_pb2.FileDescriptorProto(name="tb.proto", package="tb", dependency=["google/protobuf/struct.proto"])
for name, fields in MESSAGES.items():
    m = proto.message_type.add(name=name)
    for field, number, kind in fields:
        label = F.LABEL_REPEATED if kind[0] == "*" else F.LABEL_OPTIONAL
        kind = kind.lstrip("*")
        if kind in KINDS:
            m.field.add(name=field, number=number, type=KINDS[kind], label=label)
        else:
            m.field.add(name=field, number=number, type=F.TYPE_MESSAGE, label=label,
                        type_name=kind if kind[0] == "." else ".tb." + kind)
pool = descriptor_pool.DescriptorPool()
pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
pool.Add(proto)
kind = lambda name: message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("tb." + name))
Event, HParams = kind("Event"), kind("HParams")


def masked(data):
    crc = crc32c.crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(path):
    data = open(path, "rb").read()
    while data:
        size, head = struct.unpack("<QI", data[:12])
        body, tail = data[12:12 + size], struct.unpack("<I", data[12 + size:16 + size])[0]
        assert head == masked(data[:8]) and tail == masked(body) and len(body) == size
        yield Event.FromString(body)
        data = data[16 + size:]


first, second = (list(events(p)) for p in sorted(glob.glob("c/tensorboard/*"), key=lambda p: len(list(events(p))))[::-1])
assert first[0].file_version == second[0].file_version == "brain.Event:2"
assert second[1].session_log.status == 1 and second[1].step == 5 and not any(e.HasField("session_log") for e in first)
told = {e.step: v.simple_value for e in first + second for v in e.summary.value if v.tag == "train/loss"}
kept = {p["step"]: p["loss"] for p in map(json.loads, open("c/metrics.jsonl"))}
assert told.keys() == kept.keys() == set(range(1, 7)), (told, kept)
assert all(abs(told[k] - kept[k]) < 1e-6 * abs(kept[k]) for k in kept)
pictures = [v.image for e in first for v in e.summary.value if v.tag == "samples/after"]
assert len(pictures) == 1 and pictures[0].encoded_image_string[:8] == b"\x89PNG\r\n\x1a\n"
assert struct.unpack(">II", pictures[0].encoded_image_string[16:24]) == (pictures[0].width, pictures[0].height)
settings = [v.metadata.plugin_data for e in first for v in e.summary.value if v.HasField("metadata")]
assert len(settings) == 1 and settings[0].plugin_name == "hparams"
settings = {h.key: h.value for h in HParams.FromString(settings[0].content).session_start_info.hparams}
assert settings["model.preset"].string_value == "tiny" and settings["batch.global"].number_value == 4
assert settings["tensorboard"].bool_value is True
PY
$python read.py

sed 's/"tensorboard":true/"tensorboard":1/' run.json >wrong.json
code 64 jobctl-train train --spec wrong.json
has 'tensorboard' err
