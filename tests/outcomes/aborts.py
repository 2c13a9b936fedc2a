# SPDX-License-Identifier: Apache-2.0
import os


def f():
    os.abort()


f()
