"""Reads documents with expat: an XML parser that is not ours.

Standard input is documents, each after its length in four bytes (big endian).
Standard output is answers of the same form, in JSON: {"error": "..."} or
{"events": [...]} with ["<", [space, name], [space, name, value, ...]], ["t", text]
and [">"].
"""

import json
import struct
import sys
from xml.parsers import expat

SEPARATOR = "\x01"  # no document can have it


def name(qualified):
    space, found, local = qualified.rpartition(SEPARATOR)
    return [space, local]


def events(document):
    parser = expat.ParserCreate(namespace_separator=SEPARATOR)
    parser.ordered_attributes = True
    parser.buffer_text = True
    out = []

    def start(element, attributes):
        flat = []
        for i in range(0, len(attributes), 2):
            flat += name(attributes[i]) + [attributes[i + 1]]
        out.append(["<", name(element), flat])

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda element: out.append([">"])
    parser.CharacterDataHandler = lambda text: out.append(["t", text])
    parser.Parse(document, True)
    return out


def main():
    while header := sys.stdin.buffer.read(4):
        document = sys.stdin.buffer.read(struct.unpack(">I", header)[0])
        try:
            answer = {"events": events(document)}
        except (expat.ExpatError, ValueError, LookupError) as err:
            answer = {"error": str(err)}
        body = json.dumps(answer).encode()
        sys.stdout.buffer.write(struct.pack(">I", len(body)) + body)
        sys.stdout.buffer.flush()


main()
