"""The outline that the browser tool gives of a page, as a tree."""

import re

LINE = re.compile(r'^(?P<indent> *)- (?P<role>[\w-]+)(?: "(?P<name>(?:[^"\\]|\\.)*)")?(?P<rest>.*)$')
REF = re.compile(r"\[ref=(e\d+)\]")
VALUE = re.compile(r': "(?P<value>(?:[^"\\]|\\.)*)"')


class Node:
    def __init__(self, line, depth, role, name, rest):
        self.line, self.depth, self.role, self.name, self.rest = line, depth, role, name, rest
        found = REF.search(rest)
        self.ref = found.group(1) if found else None
        found = VALUE.search(rest)
        self.value = unquoted(found.group("value")) if found else ""
        self.children, self.parent = [], None

    def __repr__(self):
        return f"{self.role} {self.name!r} {self.ref}"

    def has(self, state):
        return f"[{state}]" in self.rest

    def below(self):
        for child in self.children:
            yield child
            yield from child.below()

    def words(self):
        """All text of it and what is below."""
        return " ".join(one for one in [self.name, *(child.words() for child in self.children)] if one)


def unquoted(text):
    return re.sub(r"\\(.)", r"\1", text)


class Page:
    def __init__(self, text):
        self.text, self.nodes = text, []
        above = []
        for line in text.splitlines():
            found = LINE.match(line)
            if not found:
                continue
            depth = len(found["indent"]) // 2
            node = Node(line, depth, found["role"], unquoted(found["name"] or ""), found["rest"])
            while above and above[-1].depth >= depth:
                above.pop()
            if above:
                node.parent = above[-1]
                above[-1].children.append(node)
            above.append(node)
            self.nodes.append(node)

    def all(self, role=None, name=None, has=None):
        """Those of a role whose name is `name`, as it is written or else whatever its case."""
        roles = (role,) if isinstance(role, str) else role
        found = [one for one in self.nodes if roles is None or one.role in roles]
        if has is not None:
            found = [one for one in found if has.lower() in one.name.lower()]
        if name is not None:
            exact = [one for one in found if one.name.strip() == name.strip()]
            found = exact or [one for one in found if one.name.strip().lower() == name.strip().lower()]
        return found

    def one(self, role=None, name=None, has=None):
        found = self.all(role, name, has)
        if not found:
            raise LookupError(f"no {role} {name or has!r} on the page:\n{self.text}")
        return found[0]
