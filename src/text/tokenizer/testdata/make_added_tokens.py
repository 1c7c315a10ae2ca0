#!/usr/bin/env python3
"""Writes added_tokens.json: what Hugging Face's `tokenizers` makes of every added token of the golden tokenizers
beside other text (BL-03). For each form, a text around a token {T}: the CRC-32 over all tokens T of the ids
(little-endian int32, then -1), of the decoded texts and of those without special tokens (UTF-8, then 0xff).
usage: make_added_tokens.py GOLDEN OUT    (pip install tokenizers==0.23.*; GOLDEN: .../shared/golden/tokenizers)"""
import gzip
import json
import pathlib
import struct
import sys
import zlib

from tokenizers import Tokenizer

FORMS = ["{T}", "{T}user", "{T} user", "{T}\nuser", "{T}  user", "user{T}", "user {T}", " {T} ", "{T}{T}", "a{T}b{T} c",
         "{T}\u2029user", "{T}\tuser\t{T}", "{T}\u00a0user", "{T}Cafe\u0301", "Cafe\u0301{T}e\u0301", "\u0301{T}\u0301", "日{T}本 🌶{T}🌶",
         "{T}\r\n\r\n{T}", "'s{T}'s", "12{T}34", "x{T}x"]


def checksums(tokenizer, added, form):
    ids_crc = decoded_crc = skipped_crc = 0
    for token in added:
        ids = tokenizer.encode(form.replace("{T}", token), add_special_tokens=False).ids
        ids_crc = zlib.crc32(struct.pack(f"<{len(ids) + 1}i", *ids, -1), ids_crc)
        decoded_crc = zlib.crc32(tokenizer.decode(ids, skip_special_tokens=False).encode() + b"\xff", decoded_crc)
        skipped_crc = zlib.crc32(tokenizer.decode(ids, skip_special_tokens=True).encode() + b"\xff", skipped_crc)
    return {"form": form, "ids": ids_crc, "decoded": decoded_crc, "skipped": skipped_crc}


def main():
    out = {}
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        text = gzip.open(folder / "tokenizer.json.gz").read().decode()
        added = [token["content"] for token in json.loads(text)["added_tokens"]]
        tokenizer = Tokenizer.from_str(text)
        out[folder.name] = {"added": len(added), "forms": [checksums(tokenizer, added, form) for form in FORMS]}
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in out.items()) + "\n}\n")


main()
