# SPDX-License-Identifier: Apache-2.0
import json


def read(text):
    return json.loads(text)
