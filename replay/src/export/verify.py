#!/usr/bin/env python3
# cocoonbox export verifier, format 1
"""Checks an export of cocoonbox logs. Needs Python 3.8 and nothing else.

    python3 verify.py EXPORT [--key VKEY]...

EXPORT is a file of JSON Lines, or the folder that has one for each log. VKEY is the public key that signs the
checkpoints, `<name>+<hex>+<base64>`, as the operator gave it to you. Without one the keys that the export itself
names are used: that shows that the checkpoints fit, not whose they are.

Of each log it checks that positions have no gap, that no time goes back, that every event's link follows from the
one before it, that every payload is what its hash says, that the sequence numbers of each stream have no gap, that
the log ends where it says, that a branch begins at a link that its parent has, and that the signed checkpoints and
the anchors in account logs are links that the log has.

What it proves: nobody changed, dropped or moved an event before a link that you hold from elsewhere: a checkpoint, an
anchor, an offset key. Not that the writer recorded the truth. Payloads that were erased or left out are not missed:
a link commits to their hash.

Exit code 0: everything fits. 1: something does not; the first bad position of each log is named. 2: wrong call, or
not an export. About 1,000 events a second; memory for one number for each stream and each checkpoint.
"""

import base64
import hashlib
import json
import os
import sys

FORMAT = 1
LINE_BYTES_MAX = 4 * 1024 * 1024

# --- BLAKE3 (hash and derive_key), as its specification has it -----------------------------------------------------

M = 0xFFFFFFFF
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
CHUNK_START, CHUNK_END, PARENT, ROOT, DERIVE_CONTEXT, DERIVE_MATERIAL = 1, 2, 4, 8, 32, 64
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)


def _schedule():
    rows = [tuple(range(16))]
    for _ in range(6):
        rows.append(tuple(rows[-1][i] for i in PERMUTATION))
    return tuple(rows)


SCHEDULE = _schedule()


def _compress(cv, block, counter, length, flags):
    """Returns the first eight words of the output: all that a hash of 32 bytes takes."""
    m = [int.from_bytes(block[i : i + 4], "little") for i in range(0, 64, 4)]
    v0, v1, v2, v3, v4, v5, v6, v7 = cv
    v8, v9, v10, v11 = IV[:4]
    v12, v13, v14, v15 = counter & M, counter >> 32, length, flags
    for s in SCHEDULE:
        v0 = (v0 + v4 + m[s[0]]) & M
        v12 ^= v0
        v12 = ((v12 >> 16) | (v12 << 16)) & M
        v8 = (v8 + v12) & M
        v4 ^= v8
        v4 = ((v4 >> 12) | (v4 << 20)) & M
        v0 = (v0 + v4 + m[s[1]]) & M
        v12 ^= v0
        v12 = ((v12 >> 8) | (v12 << 24)) & M
        v8 = (v8 + v12) & M
        v4 ^= v8
        v4 = ((v4 >> 7) | (v4 << 25)) & M
        v1 = (v1 + v5 + m[s[2]]) & M
        v13 ^= v1
        v13 = ((v13 >> 16) | (v13 << 16)) & M
        v9 = (v9 + v13) & M
        v5 ^= v9
        v5 = ((v5 >> 12) | (v5 << 20)) & M
        v1 = (v1 + v5 + m[s[3]]) & M
        v13 ^= v1
        v13 = ((v13 >> 8) | (v13 << 24)) & M
        v9 = (v9 + v13) & M
        v5 ^= v9
        v5 = ((v5 >> 7) | (v5 << 25)) & M
        v2 = (v2 + v6 + m[s[4]]) & M
        v14 ^= v2
        v14 = ((v14 >> 16) | (v14 << 16)) & M
        v10 = (v10 + v14) & M
        v6 ^= v10
        v6 = ((v6 >> 12) | (v6 << 20)) & M
        v2 = (v2 + v6 + m[s[5]]) & M
        v14 ^= v2
        v14 = ((v14 >> 8) | (v14 << 24)) & M
        v10 = (v10 + v14) & M
        v6 ^= v10
        v6 = ((v6 >> 7) | (v6 << 25)) & M
        v3 = (v3 + v7 + m[s[6]]) & M
        v15 ^= v3
        v15 = ((v15 >> 16) | (v15 << 16)) & M
        v11 = (v11 + v15) & M
        v7 ^= v11
        v7 = ((v7 >> 12) | (v7 << 20)) & M
        v3 = (v3 + v7 + m[s[7]]) & M
        v15 ^= v3
        v15 = ((v15 >> 8) | (v15 << 24)) & M
        v11 = (v11 + v15) & M
        v7 ^= v11
        v7 = ((v7 >> 7) | (v7 << 25)) & M
        v0 = (v0 + v5 + m[s[8]]) & M
        v15 ^= v0
        v15 = ((v15 >> 16) | (v15 << 16)) & M
        v10 = (v10 + v15) & M
        v5 ^= v10
        v5 = ((v5 >> 12) | (v5 << 20)) & M
        v0 = (v0 + v5 + m[s[9]]) & M
        v15 ^= v0
        v15 = ((v15 >> 8) | (v15 << 24)) & M
        v10 = (v10 + v15) & M
        v5 ^= v10
        v5 = ((v5 >> 7) | (v5 << 25)) & M
        v1 = (v1 + v6 + m[s[10]]) & M
        v12 ^= v1
        v12 = ((v12 >> 16) | (v12 << 16)) & M
        v11 = (v11 + v12) & M
        v6 ^= v11
        v6 = ((v6 >> 12) | (v6 << 20)) & M
        v1 = (v1 + v6 + m[s[11]]) & M
        v12 ^= v1
        v12 = ((v12 >> 8) | (v12 << 24)) & M
        v11 = (v11 + v12) & M
        v6 ^= v11
        v6 = ((v6 >> 7) | (v6 << 25)) & M
        v2 = (v2 + v7 + m[s[12]]) & M
        v13 ^= v2
        v13 = ((v13 >> 16) | (v13 << 16)) & M
        v8 = (v8 + v13) & M
        v7 ^= v8
        v7 = ((v7 >> 12) | (v7 << 20)) & M
        v2 = (v2 + v7 + m[s[13]]) & M
        v13 ^= v2
        v13 = ((v13 >> 8) | (v13 << 24)) & M
        v8 = (v8 + v13) & M
        v7 ^= v8
        v7 = ((v7 >> 7) | (v7 << 25)) & M
        v3 = (v3 + v4 + m[s[14]]) & M
        v14 ^= v3
        v14 = ((v14 >> 16) | (v14 << 16)) & M
        v9 = (v9 + v14) & M
        v4 ^= v9
        v4 = ((v4 >> 12) | (v4 << 20)) & M
        v3 = (v3 + v4 + m[s[15]]) & M
        v14 ^= v3
        v14 = ((v14 >> 8) | (v14 << 24)) & M
        v9 = (v9 + v14) & M
        v4 ^= v9
        v4 = ((v4 >> 7) | (v4 << 25)) & M
    return (v0 ^ v8, v1 ^ v9, v2 ^ v10, v3 ^ v11, v4 ^ v12, v5 ^ v13, v6 ^ v14, v7 ^ v15)


def _bytes(words):
    return b"".join(word.to_bytes(4, "little") for word in words)


def _chunk(key, data, counter, flags, is_root):
    """One chunk of at most 1,024 bytes."""
    cv = key
    blocks = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    for index, block in enumerate(blocks):
        of = flags
        if index == 0:
            of |= CHUNK_START
        if index == len(blocks) - 1:
            of |= CHUNK_END | (ROOT if is_root else 0)
        cv = _compress(cv, block.ljust(64, b"\0"), counter, len(block), of)
    return cv


def _tree(key, data, counter, flags, is_root):
    """The left side of a parent has the largest power of two of chunks that leaves something for the right."""
    if len(data) <= 1024:
        return _chunk(key, data, counter, flags, is_root)
    chunks = (len(data) - 1) // 1024
    left = 1 << (chunks.bit_length() - 1)
    at = left * 1024
    both = _bytes(_tree(key, data[:at], counter, flags, False) + _tree(key, data[at:], counter + left, flags, False))
    return _compress(key, both, 0, 64, flags | PARENT | (ROOT if is_root else 0))


def blake3(data):
    return _bytes(_tree(IV, data, 0, 0, True))


def derive_key_context(context):
    """Hashes the context once; derive_key then takes what came of it."""
    return _tree(IV, context.encode(), 0, DERIVE_CONTEXT, True)


def derive_key(context_key, material):
    return _bytes(_tree(context_key, material, 0, DERIVE_MATERIAL, True))


PAYLOAD = derive_key_context("cocoonbox 2026 payload")

# --- Ed25519 verification (RFC 8032) -----------------------------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def _recover(y, sign):
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * SQRT_M1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if (x & 1) != sign else x


def _point(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = _recover(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


def _add(a, b):
    A, B = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    C, E = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = B - A, E - C, E + C, B + A
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def _multiply(n, point):
    out = (0, 1, 1, 0)
    while n:
        if n & 1:
            out = _add(out, point)
        point = _add(point, point)
        n >>= 1
    return out


def _equal(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


_BY = 4 * pow(5, P - 2, P) % P
BASE = (_recover(_BY, 0), _BY, 1, _recover(_BY, 0) * _BY % P)
NEUTRAL = (0, 1, 1, 0)


def ed25519_verify(public, message, signature):
    if len(public) != 32 or len(signature) != 64:
        return False
    a, r, s = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    # A key or a commitment of small order says nothing of who has signed.
    if any(_equal(_multiply(8, point), NEUTRAL) for point in (a, r)):
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    return _equal(_multiply(s, BASE), _add(r, _multiply(k, a)))


# --- Signed notes (c2sp.org/signed-note, c2sp.org/tlog-checkpoint) -----------------------------------------------------


def key_id(name, public):
    return hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]


def read_key(text):
    """Reads a verifier key; its name and 32 bytes."""
    name, hexed, encoded = text.split("+", 2)
    raw = base64.b64decode(encoded, validate=True)
    if len(raw) != 33 or raw[0] != 1 or key_id(name, raw[1:]).hex() != hexed:
        raise ValueError("not an Ed25519 verifier key: " + text)
    return name, raw[1:]


def check_note(note, log, size, chain, keys):
    """Returns what is wrong with a checkpoint, and the keys that have signed it."""
    text, gap, signatures = note.rpartition("\n\n")
    if not gap:
        return "the note has no signatures", []
    text += "\n"
    lines = text.split("\n")
    if len(lines) < 4 or not lines[0].endswith("/log/" + log):
        return "the note is of another log", []
    if lines[1] != str(size) or lines[2] != base64.b64encode(chain).decode():
        return "the note says another position or link than its row", []
    signers = []
    for line in signatures.splitlines():
        parts = line.split(" ")
        if len(parts) != 3 or parts[0] != "\u2014":
            return "the note has a line that is not a signature", []
        raw = base64.b64decode(parts[2])
        for name, public in keys:
            if name == parts[1] and raw[:4] == key_id(name, public):
                if not ed25519_verify(public, text.encode(), raw[4:]):
                    return "the signature of `%s` is not one of its key" % name, []
                signers.append(name)
    return None, signers


# --- Exports -----------------------------------------------------------------------------------------------------------

LOG_ANCHORED, CHECKPOINT_KEY_ISSUED = 42, 72


class NotAnExport(Exception):
    pass


class Broken(Exception):
    def __init__(self, pos, what):
        super().__init__(what)
        self.pos, self.what = pos, what


def fields(message):
    """The bytes and numbers of a protobuf message, by field number."""
    out, at = {}, 0

    def varint(at):
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    while at < len(message):
        tag, at = varint(at)
        if tag & 7 == 0:
            out[tag >> 3], at = varint(at)
        elif tag & 7 == 2:
            length, at = varint(at)
            out[tag >> 3], at = message[at : at + length], at + length
        else:
            raise ValueError("wire type")
    return out


class Log:
    def __init__(self, head, path, offset):
        self.id, self.kind, self.owner = head["id"], head["kind"], head["owner"]
        self.parent, self.tail = head["parent"], head["tail"]
        self.path, self.offset = path, offset
        self.base = self.parent["pos"] if self.parent else 0
        before = bytes.fromhex(self.parent["chain"]) if self.parent else bytes(32)
        self.genesis = blake3(b"cocoonbox log v1" + bytes.fromhex(self.id) + before)
        # Positions whose links somebody asks for, and those links.
        self.wanted, self.links = set(), {self.base: self.genesis}
        # Positions at which branches begin, and the streams as they were there.
        self.branches, self.heads_at = set(), {}
        self.checkpoints, self.anchors = [], []
        self.events = self.erased = 0
        self.first_break = None


def lines(path, offset=0):
    """Yields offset and line."""
    with open(path, "rb") as file:
        file.seek(offset)
        while True:
            line = file.readline(LINE_BYTES_MAX + 2)
            if not line:
                return
            yield offset, line
            offset += len(line)


def parse(line, path, offset):
    try:
        if len(line) > LINE_BYTES_MAX + 1 or not line.endswith(b"\n"):
            raise ValueError("cut or too long")
        ((kind, value),) = json.loads(line).items()
        return kind, value
    except (ValueError, AttributeError, TypeError) as error:
        raise NotAnExport("%s: the line at byte %d is not one of an export (%s)" % (path, offset, error))


class Export:
    def __init__(self, path):
        self.logs, self.keys, self.redacted = {}, [], False
        names = None
        if os.path.isdir(path):
            paths = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".jsonl"))
        else:
            paths = [path]
        if not paths:
            raise NotAnExport("%s: there is no .jsonl file in it" % path)
        for one in paths:
            header = self.survey(one)
            self.redacted |= header["redacted"]
            if names is not None and names != header["logs"]:
                raise NotAnExport("%s: the files are not of one export" % path)
            names = header["logs"]
        missing = [log for log in names if log not in self.logs]
        if missing or len(names) != len(self.logs):
            raise NotAnExport("%s: the logs are not those that the header names; missing: %s" % (path, missing))
        for log in self.logs.values():
            self.plan(log)

    def survey(self, path):
        """Finds logs, anchors, checkpoints and keys; what cannot be read here is a break later."""
        header = log = None
        for offset, line in lines(path):
            if log is not None and line.startswith(b'{"event":'):
                self.note_event(log, line)
                continue
            kind, value = parse(line, path, offset)
            if header is None:
                if kind != "header" or value.get("format") != FORMAT:
                    raise NotAnExport("%s: it does not begin with a header of format %d" % (path, FORMAT))
                header = value
            elif kind == "log":
                log = Log(value, path, offset)
                if log.id in self.logs:
                    raise NotAnExport("%s: log %s is there twice" % (path, log.id))
                self.logs[log.id] = log
            elif kind == "checkpoint" and log is not None and value["log"] == log.id:
                log.checkpoints.append(value)
                log.wanted.add(value["size"])
            else:
                raise NotAnExport("%s: a %s at byte %d is out of place" % (path, kind, offset))
        if header is None:
            raise NotAnExport("%s: it is empty" % path)
        return header

    def note_event(self, log, line):
        # Every line is read as it is read later: what is looked for by its bytes can be hidden by a space.
        try:
            event = json.loads(line)["event"]
            if event["kind"] not in (LOG_ANCHORED, CHECKPOINT_KEY_ISSUED) or "payload" not in event:
                return
            said = fields(bytes.fromhex(event["payload"]))
            if event["kind"] == LOG_ANCHORED and log.kind == "account":
                log.anchors.append((event["pos"], said[1].hex(), said.get(2, 0), said[3]))
            elif event["kind"] == CHECKPOINT_KEY_ISSUED and log.kind == "system":
                self.keys.append((said[1].decode(), said[2]))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return

    def holder(self, log, pos):
        """The log that has this position of a log's history; None if it is not in the export."""
        seen = set()
        while log is not None and pos < log.base and log.id not in seen:
            seen.add(log.id)
            log = self.logs.get(log.parent["log"])
        return log

    def plan(self, log):
        for _, of, pos, _ in log.anchors:
            box_log = self.holder(self.logs.get(of), pos)
            if box_log is not None:
                box_log.wanted.add(pos)
        if log.parent:
            parent = self.holder(self.logs.get(log.parent["log"]), log.base)
            if parent is not None:
                parent.wanted.add(log.base)
                parent.branches.add(log.base)

    def in_order(self):
        """Parents before their branches."""
        done, order = set(), []
        while len(order) < len(self.logs):
            ready = [
                log
                for log in self.logs.values()
                if log.id not in done and (not log.parent or log.parent["log"] in done or log.parent["log"] not in self.logs)
            ]
            if not ready:
                raise NotAnExport("branches go in a circle")
            order += ready
            done.update(log.id for log in ready)
        return order


def check_event(log, event, pos, chain, at_us, heads, is_whole):
    """Checks the event that must be at `pos`, and returns its link and time."""
    if event["log"] != log.id:
        raise Broken(pos, "the event says that it belongs to log %s" % event["log"])
    if event["pos"] != pos:
        raise Broken(pos, "position %d where %d follows" % (event["pos"], pos))
    if at_us is not None and event["recorded_us"] < at_us:
        raise Broken(pos, "the time goes back")
    payload_hash = bytes.fromhex(event["payload_hash"])
    if "payload" in event or "salt" in event:
        salt, payload = bytes.fromhex(event["salt"]), bytes.fromhex(event["payload"])
        if len(salt) != 16 or derive_key(PAYLOAD, salt + payload) != payload_hash:
            raise Broken(pos, "the payload is not what its hash says")
    else:
        log.erased += 1
    parts = [b"cocoonbox event v1", chain, pos.to_bytes(8, "little")]
    for field in (
        event["stream"].encode(),
        event["seq"].to_bytes(8, "little"),
        event["kind"].to_bytes(4, "little"),
        event["version"].to_bytes(4, "little"),
        event["recorded_us"].to_bytes(8, "little", signed=True),
        bytes.fromhex(event["header"]),
    ):
        parts += [len(field).to_bytes(8, "little"), field]
    link = blake3(b"".join(parts) + payload_hash)
    if link.hex() != event["chain"]:
        raise Broken(pos, "the link does not follow from what is before it")
    stream, seq = event["stream"], event["seq"]
    before = heads.get(stream)
    # Without the parent nobody knows where its streams were.
    if (is_whole or before is not None) and seq != (before or 0) + 1:
        raise Broken(pos, "stream `%s` goes on with seq %d after %d" % (stream, seq, before or 0))
    heads[stream] = seq
    return link, event["recorded_us"]


def check_log(export, log):
    heads, is_whole = {}, True
    if log.parent:
        parent = export.holder(export.logs.get(log.parent["log"]), log.base)
        is_whole = parent is not None and log.base in parent.heads_at
        if parent is not None:
            link = parent.links.get(log.base)
            if link is None or link.hex() != log.parent["chain"]:
                raise Broken(log.base, "the parent %s has another link where this log branches off" % parent.id)
            heads = dict(parent.heads_at.get(log.base, {}))
    if log.base in log.branches:
        log.heads_at[log.base] = dict(heads)
    pos, chain, at_us = log.base, log.genesis, None
    for offset, line in lines(log.path, log.offset):
        if offset == log.offset:
            continue
        if not line.startswith(b'{"event":'):
            if line.startswith(b'{"log":'):
                break
            continue
        try:
            _, event = parse(line, log.path, offset)
            chain, at_us = check_event(log, event, pos + 1, chain, at_us, heads, is_whole)
        except Broken:
            raise
        except (NotAnExport, KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise Broken(pos + 1, "the line cannot be read: %s" % error)
        pos += 1
        log.events += 1
        if pos in log.wanted:
            log.links[pos] = chain
        if pos in log.branches:
            log.heads_at[pos] = dict(heads)
    if pos != log.tail["pos"]:
        raise Broken(pos + 1, "the log ends here, but says that it ends at %d" % log.tail["pos"])
    if chain.hex() != log.tail["chain"]:
        raise Broken(pos, "the link here is not the one that the log says it ends with")


def check_checkpoints(log, keys):
    """Returns how many are good, how many no known key has signed, and what is wrong with the first bad one."""
    good = unsigned = 0
    for kept in log.checkpoints:
        size, chain = kept["size"], bytes.fromhex(kept["chain"])
        if log.links.get(size) != chain:
            return good, unsigned, (size, "the log has another link here than its checkpoint")
        try:
            wrong, signers = check_note(kept["note"], log.id, size, chain, keys)
        except ValueError as error:
            wrong, signers = "the note cannot be read: %s" % error, []
        if wrong:
            return good, unsigned, (size, wrong)
        if signers:
            good += 1
        else:
            unsigned += 1
    return good, unsigned, None


def check_anchors(export, log):
    """Returns how many were compared, how many name a log that is not here, and the first that does not fit."""
    compared = absent = 0
    for at, of, pos, chain in log.anchors:
        box_log = export.holder(export.logs.get(of), pos)
        if box_log is None:
            absent += 1
        elif box_log.first_break and box_log.first_break.pos <= pos:
            continue
        elif box_log.links.get(pos) != chain:
            return compared, absent, (at, "box log %s has another link at %d than the anchor says" % (of, pos))
        else:
            compared += 1
    return compared, absent, None


def main(arguments):
    keys, paths = [], []
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-h", "--help"):
            print(__doc__)
            return 0
        if argument == "--key":
            try:
                keys.append(read_key(next(rest, "")))
            except ValueError:
                print("error: --key wants <name>+<hex>+<base64>", file=sys.stderr)
                return 2
        else:
            paths.append(argument)
    if len(paths) != 1:
        print("usage: python3 verify.py EXPORT [--key VKEY]...", file=sys.stderr)
        return 2
    try:
        export = Export(paths[0])
        order = export.in_order()
    except (NotAnExport, OSError, KeyError, ValueError, TypeError) as error:
        print("error: %s" % error, file=sys.stderr)
        return 2
    is_good = True
    for log in order:
        try:
            check_log(export, log)
        except Broken as broken:
            log.first_break = broken
    trusted = keys or export.keys
    totals = [0, 0, 0, 0, 0]
    for log in order:
        words = []
        if log.first_break:
            is_good = False
            words.append("BROKEN at %d: %s" % (log.first_break.pos, log.first_break.what))
        else:
            words.append("%d events, whole" % log.events)
            if log.erased:
                words.append("%d without payload" % log.erased)
            good, unsigned, wrong = check_checkpoints(log, trusted)
            if good:
                words.append("%d checkpoints" % good)
            if unsigned:
                words.append("%d checkpoints of unknown keys" % unsigned)
            if unsigned and keys:
                is_good = False
                words.append("NOT SIGNED by the keys that were given")
            if wrong:
                is_good = False
                words.append("BAD CHECKPOINT at %d: %s" % wrong)
            compared, absent, wrong = check_anchors(export, log)
            if wrong:
                is_good = False
                words.append("BAD ANCHOR at %d: %s" % wrong)
            for index, count in enumerate((log.events, good, unsigned, compared, absent)):
                totals[index] += count
        name = log.kind if log.kind == "system" else "%s of %s" % (log.kind, log.owner)
        print("%s (%s): %s" % (log.id, name, ", ".join(words)))
    if export.redacted:
        print("redacted: payloads were left out, so anchors between logs cannot be compared")
    if totals[1] and not keys:
        print("checkpoints: compared with the keys that the export itself names; --key takes the one that you trust")
    if totals[4]:
        print("anchors: %d name a log that is not in this export" % totals[4])
    word = "good" if is_good else "NOT GOOD"
    print("%s: %d logs, %d events, %d checkpoints, %d anchors" % (word, len(order), totals[0], totals[1], totals[3]))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
