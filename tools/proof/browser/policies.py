"""How MiniWoB++ pages are played by refs: from a goal and an outline to tool calls.

A policy is a generator. It yields tool calls and is sent what they answered; it yields `None` to have the page read
again and is sent that. No policy runs a script in the page or looks at a picture: a page that can only be played by
its pixels has none, and `BY_PIXELS` says why.
"""

import ast, operator, re

POLICIES = {}
BY_PIXELS = {
    "a place in a drawing": "bisect-angle circle-center draw-circle draw-line find-midpoint hot-cold right-angle",
    "something that moves": "chase-circle hover-shape moving-items simon-says",
    "colours": "click-color click-shades use-colorwheel-2 drag-shapes-2",
    "shapes": "click-shape count-shape count-sides drag-shapes identify-shape visual-addition",
    "a direction without anything there": "drag-circle drag-single-shape drag-cube resize-textarea",
    "text that is marked with the pointer": "highlight-text highlight-text-2",
}


class Stuck(Exception):
    """The policy does not know how to go on."""


def plays(*tasks):
    def enter(policy):
        for task in tasks:
            assert task not in POLICIES, task
            POLICIES[task] = policy
        return policy
    return enter


def of(task):
    return POLICIES.get(task)


def act(action, **args):
    return "browser", {"action": action, **args}


def look(action, **args):
    return "browser_look", {"action": action, **args}


def click(node):
    return act("click", ref=node.ref)


def fill(node, text):
    return act("fill", ref=node.ref, text=text)


def drag(node, to):
    return act("drag", ref=node.ref, to=to.ref)


def submit(page, name="Submit"):
    return click(page.one("button", name))


def quoted(goal):
    return [one.strip() for one in re.findall(r'"([^"]*)"', goal)]


def ordinal(text):
    found = re.search(r"(\d+)(?:st|nd|rd|th)", text)
    if not found:
        raise Stuck(f"no ordinal in `{text}`")
    return int(found.group(1)) - 1


def area(page, goal):
    """What is on the page besides what it asks for and the frame around it."""
    told = re.sub(r"\W", "", goal)
    found = []
    for node in page.nodes:
        if node.role == "canvas" and found:
            break
        if not node.name or re.sub(r"\W", "", node.name) != told:
            found.append(node)
    return found


def texts(page, goal):
    return [one for one in area(page, goal) if one.role == "text"]


def number(text):
    found = re.search(r"-?\d+(?:\.\d+)?", text.replace(",", ""))
    return float(found.group()) if found else None


# Buttons and links


@plays("click-button", "unicode-test")
def _(goal, page):
    yield click(page.one("button", quoted(goal)[0]))


@plays("click-test")
def _(goal, page):
    yield click(page.one("button"))


@plays("click-test-2", "click-test-transfer")
def _(goal, page):
    yield click(page.one("button", re.search(r"button (\w+)", goal).group(1)))


@plays("click-button-sequence")
def _(goal, page):
    yield click(page.one("button", "ONE"))
    yield click(page.one("button", "TWO"))


@plays("button-delay")
def _(goal, page):
    yield click(page.one("button", "ONE"))
    seconds = int(re.search(r"wait (\d+)", goal).group(1))
    # Each action takes a moment itself.
    yield look("wait", text="what never comes", timeout_ms=seconds * 1000 - 250)
    yield click(page.one("button", "TWO"))


@plays("click-dialog")
def _(goal, page):
    yield click(page.one("button", "Close"))


@plays("click-dialog-2")
def _(goal, page):
    name = quoted(goal)[0]
    yield click(page.one("button", "Close" if name == "x" else name))


@plays("click-link")
def _(goal, page):
    wanted = quoted(goal)[0]
    yield click(next(one for one in texts(page, goal) if one.name == wanted))


@plays("click-tab")
def _(goal, page):
    yield click(page.one("tab", re.search(r"Tab #\d+", goal).group()))


@plays("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
def _(goal, page):
    wanted = quoted(goal)[0]
    for tab in page.all("tab"):
        if not tab.has("selected"):
            yield click(tab)
            page = yield None
        for one in texts(page, goal):
            if one.name == wanted:
                yield click(one)
                return
    raise Stuck("no tab has the link")


@plays("click-collapsible", "click-collapsible-nodelay")
def _(goal, page):
    yield click(page.one("tab"))
    page = yield None
    yield submit(page)


@plays("click-collapsible-2", "click-collapsible-2-nodelay")
def _(goal, page):
    wanted = quoted(goal)[0]
    for tab in page.all("tab"):
        if not tab.has("expanded"):
            yield click(tab)
            page = yield None
        found = [one for one in texts(page, goal) if one.name == wanted]
        if found:
            yield click(found[0])
            return
    raise Stuck("no section has the link")


@plays("click-menu")
def _(goal, page):
    *above, last = goal.removeprefix("Select ").strip().split(">")
    for name in above:
        yield act("hover", ref=page.one("menuitem", name).ref)
        yield look("wait", text=last, timeout_ms=1500)
        page = yield None
    yield click(page.one("menuitem", last))


@plays("click-menu-2")
def _(goal, page):
    if not quoted(goal)[1:]:
        raise Stuck("the goal is told by a picture")
    wanted = quoted(goal)[1]
    yield click(page.one("button", "Menu"))
    page = yield None
    if not page.all("menuitem", wanted):
        yield act("hover", ref=page.one("menuitem", "Playback").ref)
        yield look("wait", text=wanted)
        page = yield None
    yield click(page.one("menuitem", wanted))


@plays("click-pie", "click-pie-nodelay")
def _(goal, page):
    wanted = quoted(goal)[0]
    yield click([one for one in texts(page, goal) if one.name == "+"][-1])
    yield look("wait", text=wanted)
    page = yield None
    yield click([one for one in texts(page, goal) if one.name == wanted][-1])


@plays("click-widget")
def _(goal, page):
    wanted = quoted(goal)[0]
    def fits(node):
        if node.role == "textbox":
            return wanted == ("textarea" if node.has("multiline") else "text")
        return node.role == wanted
    yield click(next(one for one in area(page, goal) if fits(one)))


@plays("focus-text")
def _(goal, page):
    yield click(page.one("textbox"))


@plays("focus-text-2")
def _(goal, page):
    yield click(page.all("textbox")[ordinal(goal)])


@plays("ascending-numbers")
def _(goal, page):
    yield click(next(one for one in texts(page, goal) if one.name == "1"))
    # The others are covered, and their covers stand in their order.
    page = yield None
    for cover in page.all("graphics-symbol"):
        yield click(cover)


@plays("find-greatest")
def _(goal, page):
    yield click(max(texts(page, goal), key=lambda one: number(one.name) or 0))
    yield submit(page)


@plays("grid-coordinate")
def _(goal, page):
    x, y = map(int, re.search(r"\((-?\d+),(-?\d+)\)", goal).groups())
    # Column by column, from the top left.
    yield click(page.all("graphics-symbol")[(x + 2) * 5 + (2 - y)])


@plays("odd-or-even")
def _(goal, page):
    row = []
    for one in area(page, goal):
        row.append(one)
        if one.role == "button" and one.name == "Even":
            odd, value, even = row[-3:]
            yield click(even if int(value.name) % 2 == 0 else odd)
    yield submit(page)


@plays("generate-number")
def _(goal, page):
    fits = {"greater": lambda n, m: n > m, "less": lambda n, m: n < m, "even": lambda n, _: n % 2 == 0,
            "odd": lambda n, _: n % 2 == 1}
    fit = next(fits[word] for word in fits if word in goal)
    for _ in range(30):
        yield click(page.one("button", "Generate"))
        page = yield None
        values = [number(one.name) for one in area(page, goal) if one.role in ("text", "status") and number(one.name) is not None]
        values += [number(one.value) for one in area(page, goal) if number(one.value) is not None]
        if values and fit(values[0], number(goal)):
            yield submit(page)
            return


@plays("navigate-tree")
def _(goal, page):
    wanted = quoted(goal)[0]
    opened = set()
    while True:
        found = [one for one in texts(page, goal) if one.name == wanted]
        if found:
            yield click(found[0])
            return
        folders = [one for one in area(page, goal) if one.role == "clickable" and "expandable" in one.name
                   and one.ref not in opened]
        if not folders:
            raise Stuck("nothing is left to open")
        opened.add(folders[0].ref)
        yield click(folders[0])
        page = yield None


@plays("phone-book")
def _(goal, page):
    name = re.search(r"Find (\S+) in", goal).group(1)
    what = {"phone": "Phone:", "email": "Email:", "address": "Address:"}
    label = next(what[word] for word in what if word in goal)
    for _ in range(20):
        if page.all("heading", name):
            nodes = page.nodes
            at = nodes.index(page.one("text", label))
            yield click(next(one for one in nodes[at:] if one.role == "link"))
            return
        yield click(page.one("link", ">"))
        page = yield None


@plays("search-engine")
def _(goal, page):
    yield fill(page.one("textbox"), quoted(goal)[0])
    yield submit(page, "Search")
    page = yield None
    at = ordinal(goal)
    if at >= 3:
        yield click(page.one("link", str(at // 3 + 1)))
        page = yield None
    results = [one for one in page.all("link") if not re.fullmatch(r"[<>\d]", one.name)]
    yield click(results[at % 3])


@plays("stock-market")
def _(goal, page):
    limit = float(re.search(r"less than \$(\d+\.\d+)", goal).group(1))
    for _ in range(50):
        price = number(next(one for one in texts(page, goal) if one.name.startswith("$")).name[1:])
        if price < limit:
            yield submit(page, "Buy")
            return
        page = yield None


@plays("buy-ticket")
def _(goal, page):
    def minutes(text):
        hours, rest = re.search(r"(\d+)h (\d+)m", text).groups()
        return int(hours) * 60 + int(rest)
    tickets = []
    for one in area(page, goal):
        if re.fullmatch(r"\d+h \d+m", one.name):
            tickets.append([minutes(one.name)])
        elif one.role == "button":
            tickets[-1] += [number(one.name), one]
    by = 0 if "duration" in goal else 1
    pick = max if re.search("most expensive|longest|highest", goal) else min
    yield click(pick(tickets, key=lambda one: one[by])[2])


@plays("order-food")
def _(goal, page):
    menu = []
    for one in area(page, goal):
        if one.role == "text" and one.name == "+":
            menu[-1]["more"] = one
        elif one.role == "clickable" and "plus" in one.name:
            menu[-1]["more"] = one
        elif one.role == "text" and not one.name.isdigit() and one.name != "-":
            menu.append({"name": one.name, "tags": []})
        elif one.role == "image":
            menu[-1]["tags"].append(one.name)
    if ":" in goal:
        wanted = [name.strip() for name in goal.split(":", 1)[1].split(",")]
        chosen = [next(one for one in menu if one["name"] == name) for name in wanted]
    else:
        count, tag = re.search(r"Order (\d+) items that are (.*)", goal).groups()
        tag = tag.strip().rstrip(".").removeprefix("not ")
        chosen = [one for one in menu if ("more" in one) and any(tag in known for known in one["tags"])]
        if not chosen:
            raise Stuck(f"nothing is `{tag}`")
        chosen = (chosen * int(count))[: int(count)]
    for one in chosen:
        yield click(one["more"])
    yield submit(page, "Order!")


# Fields


@plays("enter-text", "enter-text-dynamic")
def _(goal, page):
    yield fill(page.one("textbox"), quoted(goal)[0])
    yield submit(page)


@plays("enter-text-2")
def _(goal, page):
    text = quoted(goal)[0]
    yield fill(page.one("textbox"), text.upper() if "upper" in goal else text.lower())
    yield submit(page)


@plays("enter-password")
def _(goal, page):
    for field in page.all("textbox"):
        yield fill(field, quoted(goal)[0])
    yield submit(page)


@plays("login-user")
def _(goal, page):
    for field, text in zip(page.all("textbox"), quoted(goal)):
        yield fill(field, text)
    yield submit(page, "Login")


@plays("login-user-popup")
def _(goal, page):
    def closed(page):
        """Something comes up over the fields at a moment of its own."""
        for name in ("Cancel", "OK", "x", "X", "Exit", "Close"):
            found = page.all(("button", "link", "text"), name)
            if found and (name != "OK" or page.all(has="popup") or page.all(has="session")):
                return click(found[0])
    for at, text in enumerate(quoted(goal)):
        for _ in range(4):
            answer = yield fill(page.all("textbox")[at], text)
            page = yield None
            if page.all("textbox")[at].value or (at and "nothing" not in answer and "covered" not in answer):
                break
            away = closed(page)
            if away:
                yield away
                page = yield None
    for _ in range(4):
        answer = yield click(page.all("button", has="login")[0] if page.all("button", has="login") else page.one("button", "OK"))
        page = yield None
        away = closed(page) if "cover" in answer else None
        if not away:
            return
        yield away
        page = yield None


@plays("enter-date")
def _(goal, page):
    month, day, year = re.search(r"(\d+)/(\d+)/(\d+)", goal).groups()
    yield fill(page.one(("date", "textbox")), f"{year}-{month}-{day}")
    yield submit(page)


@plays("enter-time")
def _(goal, page):
    hour, minute, half = re.search(r"(\d+):(\d+) ([AP]M)", goal).groups()
    hour = int(hour) % 12 + (12 if half == "PM" else 0)
    yield fill(page.one(("inputtime", "textbox")), f"{hour:02}:{minute}")
    yield submit(page)


@plays("copy-paste")
def _(goal, page):
    source, field = page.all("textbox")
    yield from copy(source, field)
    yield submit(page)


@plays("copy-paste-2")
def _(goal, page):
    fields = page.all("textbox")
    yield from copy(fields[ordinal(goal)], fields[-1])
    yield submit(page)


def copy(source, field):
    """By the clipboard: an outline tells a text without its line ends."""
    yield click(source)
    yield act("press", ref=source.ref, key="Control+a")
    yield act("press", ref=source.ref, key="Control+c")
    yield click(field)
    yield act("press", ref=field.ref, key="Control+v")


@plays("find-word")
def _(goal, page):
    words = " ".join(one.name for one in texts(page, goal)).split()
    yield fill(page.one("textbox"), words[ordinal(goal)].strip(",."))
    yield submit(page)


@plays("read-table", "read-table-2")
def _(goal, page):
    cells = [one.name for one in page.all("cell")]
    known = dict(zip(cells[::2], cells[1::2]))
    labels = [one.name.rstrip(":") for one in texts(page, goal) if one.name.rstrip(":") in known]
    labels = labels or [re.search(r"value of (.*) into", goal).group(1)]
    for field, label in zip(page.all("textbox"), labels):
        yield fill(field, known[label])
    yield submit(page)


@plays("multi-layouts", "multi-orderings")
def _(goal, page):
    genre, name, year = re.search(r"for (.*) movies directed by (.*) from year (\d+)", goal).groups()
    label = ""
    for one in area(page, goal):
        if one.role != "textbox":
            label = one.name if one.name else label
            continue
        label = (one.name or label).lower()
        text = genre if "genre" in label else year if "year" in label else name
        yield fill(one, text)
    buttons = [one for one in area(page, goal) if one.name in ("Submit", "Search", "Go", "Find")
               or one.role == "button"]
    yield click(buttons[-1])


@plays("simple-arithmetic")
def _(goal, page):
    line = next(one.name for one in texts(page, goal) if one.name.endswith("="))
    yield fill(page.one("textbox"), str(value(line[:-1])))
    yield submit(page)


@plays("simple-algebra")
def _(goal, page):
    line = next(one.name for one in texts(page, goal) if re.search(r"=.*\d|\d.*=.*x", one.name))
    left, right = line.split("=")
    for x in range(-2000, 2001):
        if value(left, x) == value(right, x):
            yield fill(page.one("textbox"), str(x))
            yield submit(page)
            return


def value(text, x=0):
    operators = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.USub: operator.neg}
    def of(node):
        match node:
            case ast.Expression():
                return of(node.body)
            case ast.Constant():
                return node.value
            case ast.Name():
                return x
            case ast.UnaryOp():
                return operators[type(node.op)](of(node.operand))
            case ast.BinOp():
                return operators[type(node.op)](of(node.left), of(node.right))
    text = re.sub(r"(?<=\d) x (?=\d)", "*", text).replace("×", "*").strip()
    return of(ast.parse(text, mode="eval"))


@plays("guess-number")
def _(goal, page):
    low, high = 0, 9
    while low <= high:
        guess = (low + high) // 2
        yield fill(page.one(("spinbutton", "textbox")), str(guess))
        yield submit(page)
        page = yield None
        if page.all("text", has="higher than"):
            low = guess + 1
        elif page.all("text", has="lower than"):
            high = guess - 1
        else:
            return


@plays("text-transform")
def _(goal, page):
    yield fill(page.one("textbox"), "".join(one.name for one in texts(page, goal)))
    yield submit(page)


@plays("scroll-text")
def _(goal, page):
    source, field = page.all("textbox")
    if source.value.endswith("…"):
        raise Stuck("the end of the text is not told")
    yield fill(field, source.value.split()[-1].strip(",."))
    yield submit(page)


@plays("scroll-text-2")
def _(goal, page):
    down = -100_000 if "top" in goal else 100_000
    yield act("scroll", ref=page.one("textbox").ref, down=down)
    yield submit(page)


@plays("sign-agreement")
def _(goal, page):
    if goal.startswith("Click the cancel"):
        yield submit(page, "Cancel")
        return
    agreement = page.one("textbox")
    yield act("scroll", ref=agreement.ref, down=100_000)
    name, button = quoted(goal)
    yield fill(page.one("textbox", "Name"), name)
    yield submit(page, button)


@plays("terminal")
def _(goal, page):
    field = page.one("textbox")
    yield act("type", ref=field.ref, text="ls", enter=True)
    page = yield None
    files = next(one.name for one in reversed(texts(page, goal)) if re.search(r"^\S+( \S+){2,}$", one.name)
                 and "$" not in one.name and "login" not in one.name).split()
    found = re.search(r"extension \.?(\S+?)\.?$", goal)
    if "no file extension" in goal:
        name = next(one for one in files if "." not in one)
    else:
        name = next(one for one in files if one.endswith("." + found.group(1).lstrip(".")))
    yield act("type", ref=field.ref, text=f"rm {name}", enter=True)


@plays("text-editor")
def _(goal, page):
    buttons = page.all("button")
    editor = page.all("textbox")[0]
    text = editor.words() or editor.value
    yield click(editor)
    if "everything" in goal:
        yield act("press", key="Control+a")
    else:
        word = re.search(r"give the text (\S+) the", goal).group(1)
        at = text.split().index(word)
        yield act("press", key="Control+Home")
        start = len(" ".join(text.split()[:at])) + (at > 0)
        for _ in range(start):
            yield act("press", key="ArrowRight")
        for _ in word:
            yield act("press", key="Shift+ArrowRight")
    style = next((at for at, name in enumerate(("bold", "italics", "underlined")) if f"style {name}" in goal), None)
    if style is None:
        raise Stuck("a colour is picked by its looks")
    styles = [one for one in buttons if not one.name or one.name in ("bold", "italic", "underline")]
    yield click(styles[style])
    yield submit(page)


# Lists, boxes, dates, sliders


@plays("choose-list")
def _(goal, page):
    yield act("select", ref=page.one(("combobox", "listbox")).ref,
              values=[re.search(r"Select (.*) from the list", goal).group(1)])
    yield submit(page)


@plays("click-scroll-list")
def _(goal, page):
    names = re.search(r"Select (.*) from the scroll list", goal).group(1).split(", ")
    yield act("select", ref=page.one("listbox").ref, values=names)
    yield submit(page)


@plays("click-option")
def _(goal, page):
    yield click(page.one("radio", re.search(r"Select (.*) and click", goal).group(1)))
    yield submit(page)


@plays("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
def _(goal, page):
    names = re.search(r"Select (.*) and click", goal).group(1)
    for name in [] if names == "nothing" else names.split(", "):
        yield click(page.one("checkbox", name))
    yield submit(page)


LIKE = """big large huge enormous gigantic; small tiny little mini petite; red scarlet crimson vermillion;
happy cheerful joyful gleeful delighted; sad unhappy sorrowful miserable tragic; angry mad furious irritated;
evil wicked immoral sinful corrupt depraved; wrong incorrect mistaken erroneous; real genuine actual;
strange odd peculiar unusual weird; stop cease halt end finish; scared terrified panicked fearful frightened afraid;
quiet calm peaceful serene mild; old aged archaic; shy timid bashful; love like adore; keep retain preserve;
hide conceal camouflage; quick rapid fast swift; fire flame inferno; pigs swine hogs; kill murder assassinate slay;
food nourishment cuisine; mother mom mommy; television televisions tv; ask question interrogate;
answer reply response; car automobile vehicle; home house dwelling residence; water aqua""".replace("\n", " ")


@plays("click-checkboxes-soft")
def _(goal, page):
    groups = [set(one.split()) for one in LIKE.split(";")]
    wanted = re.search(r"similar to (.*) and click", goal).group(1).split(", ")
    for box in page.all("checkbox"):
        if any(box.name == word or any({box.name, word} <= group for group in groups) for word in wanted):
            yield click(box)
    yield submit(page)


@plays("number-checkboxes")
def _(goal, page):
    digits = {
        "0": "0110 1001 1001 1001 1001 1001 0110",
        "1": "0010 0110 0010 0010 0010 0010 0010",
        "2": "0110 1001 1001 0010 0100 1000 1111",
        "3": "0110 1001 0001 0110 0001 1001 0110",
        "4": "1000 1010 1010 1111 0010 0010 0010",
        "5": "1111 1000 1000 1110 0001 1001 0110",
        "6": "0110 1001 1000 1110 1001 1001 0110",
        "7": "1111 1001 0001 0010 0010 0100 0100",
        "8": "0110 1001 1001 0110 1001 1001 0110",
        "9": "0110 1001 1001 0111 0001 1001 0110",
    }
    pattern = digits[quoted(goal)[0]].replace(" ", "")
    for box, is_set in zip(page.all("checkbox"), pattern):
        if is_set == "1":
            yield click(box)
    yield submit(page)


MONTHS = "January February March April May June July August September October November December".split()


@plays("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
def _(goal, page):
    yield from pick_date(goal, page, page.one("textbox"))
    page = yield None
    yield submit(page)


def pick_date(goal, page, field):
    month, day, year = map(int, re.search(r"(\d+)/(\d+)/(\d+)", goal).groups())
    yield click(field)
    page = yield None
    for _ in range(30):
        words = " ".join(one.name for one in page.nodes)
        shown = re.search(r"(%s) (\d{4})" % "|".join(MONTHS), words)
        if not shown:
            raise Stuck("no calendar came up")
        away = (int(shown.group(2)) - year) * 12 + MONTHS.index(shown.group(1)) + 1 - month
        if away == 0:
            yield click(page.one(("link", "text", "button"), str(day)))
            return
        names = ("Prev", "prev", "Previous") if away > 0 else ("Next", "next")
        yield click(next(one for name in names for one in page.all(("link", "button", "text", "clickable"), name)))
        page = yield None


def slide(handle, by):
    for _ in range(abs(round(by))):
        yield act("press", ref=handle.ref, key="ArrowRight" if by > 0 else "ArrowLeft")


@plays("use-slider")
def _(goal, page):
    handle = page.one("generic")
    shown = number(next(one for one in texts(page, goal) if number(one.name) is not None).name)
    yield from slide(handle, number(goal) - shown)
    yield submit(page)


@plays("use-slider-2")
def _(goal, page):
    wanted = [int(one) for one in re.search(r"\[(.*)\]", goal).group(1).split(",")]
    shown = [number(one.name) for one in texts(page, goal) if number(one.name) is not None]
    for handle, to, at in zip(page.all("generic"), wanted, shown):
        yield from slide(handle, to - at)
    yield submit(page)


@plays("use-spinner")
def _(goal, page):
    yield fill(page.one("spinbutton"), str(round(number(goal))))
    yield submit(page)


@plays("use-colorwheel")
def _(goal, page):
    known = {"red": "FF0000", "green": "00FF00", "blue": "0000FF", "yellow": "FFFF00", "orange": "FFA500",
             "purple": "800080", "white": "FFFFFF", "black": "000000", "cyan": "00FFFF", "magenta": "FF00FF",
             "pink": "FFC0CB"}
    yield fill(page.one("textbox"), known[re.search(r"Select (\w+) with", goal).group(1)])
    yield submit(page)


@plays("use-autocomplete", "use-autocomplete-nodelay")
def _(goal, page):
    start, *end = quoted(goal)
    yield act("type", ref=page.one("textbox").ref, text=start)
    def fits(name):
        return name.lower().startswith(start.lower()) and (not end or name.lower().endswith(end[0].lower()))
    for _ in range(10):
        page = yield None
        found = [one for one in page.nodes if one.role in ("option", "listitem", "menuitem", "text") and
                 fits(one.words().strip()) and one.ref]
        if found:
            yield click(found[-1])
            break
    yield submit(page)


@plays("form-sequence")
def _(goal, page):
    shown = number(next(one for one in texts(page, goal) if number(one.name) is not None).name)
    yield from slide(page.one("generic"), number(re.search(r"Select (-?\d+)", goal).group(1)) - shown)
    yield click(page.all("checkbox")[ordinal(goal)])
    yield submit(page)


@plays("form-sequence-2")
def _(goal, page):
    first, second = goal.split(" and ")
    yield click(page.all("radio")[ordinal(first)])
    yield fill(page.all("textbox")[ordinal(second)], quoted(goal)[0])
    yield submit(page)


@plays("form-sequence-3")
def _(goal, page):
    yield act("select", ref=page.one("combobox").ref,
              values=[re.search(r"Choose (.*) from the dropdown", goal).group(1)])
    yield submit(page, quoted(goal)[0])


@plays("book-flight", "book-flight-nodelay")
def _(goal, page):
    start, end = re.search(r"from: (.*) to: (.*) on", goal).groups()
    for label, place in (("From:", start), ("To:", end)):
        yield act("type", ref=page.one("textbox", label).ref, text=place)
        yield look("wait", text="result is available")
        page = yield None
        yield click([one for one in page.all("generic") if place in one.words() and len(one.words()) < 60][-1])
        page = yield None
    fields = [one for one in page.all("textbox") if one.has("readonly")]
    yield from pick_date(goal, page, fields[0])
    page = yield None
    yield submit(page, "Search")
    page = yield None
    flights = []
    for one in area(page, goal):
        if re.fullmatch(r"(Duration: )?\d+h \d+m", one.name):
            hours, minutes = re.search(r"(\d+)h (\d+)m", one.name).groups()
            flights.append([int(hours) * 60 + int(minutes)])
        elif one.role == "button" and "$" in one.name:
            flights[-1] += [number(one.name), one]
    by = 0 if "shortest" in goal else 1
    yield click(min(flights, key=lambda one: one[by])[2])


# Mail and posts


def mail(page):
    """The inbox: of each message who sent it and what can be clicked."""
    found = []
    nodes = page.nodes
    start = next(at for at, one in enumerate(nodes) if one.role == "heading" and one.name == "Primary")
    row = []
    for one in nodes[start + 1:]:
        if one.role not in ("text", "clickable") or one.name.startswith("Last reward"):
            break
        row.append(one)
        if one.role == "clickable" and one.name.startswith("star"):
            texts = [each for each in row if each.role == "text"]
            found.append({"from": texts[0].name, "text": texts[0], "trash": by_class(row, "trash"), "star": one})
            row = []
    if not found:
        raise Stuck("no inbox")
    return found


def by_class(nodes, word):
    return next(one for one in nodes if one.role == "clickable" and word in one.name.split())


@plays("email-inbox", "email-inbox-delete", "email-inbox-forward", "email-inbox-forward-nl",
       "email-inbox-forward-nl-turk", "email-inbox-important", "email-inbox-nl-turk", "email-inbox-noscroll",
       "email-inbox-reply", "email-inbox-star-reply")
def _(goal, page):
    messages = mail(page)
    names = [one["from"] for one in messages]
    said = goal.lower()
    reply = re.search(r'(?:text|saying|with|message|say|reply|respond)\b[^"]*"([^"]*)"', goal)
    if re.search(r"forward|send|pass|give", said) and not re.search(r"reply|respond", said):
        named = re.findall(r"[A-Z][\w'-]+", goal)
        named = [one.removesuffix("'s") for one in named]
        sender = next(one for one in named if one in names)
        rest = [one for one in named if one != sender and one not in
                ("Find", "Forward", "Send", "Please", "Can", "The", "Email", "I", "Give", "Pass", "Could", "You", "Let")]
        for found in (re.search(r"\b(?:to|on to) ([A-Z]\w+)", goal),):
            if found and found.group(1) in names + rest:
                to = found.group(1)
                break
        else:
            to = rest[-1]
        if to == sender or re.search(rf"(?:from|by|of|that) {to}\b", goal):
            sender, to = next(one for one in named if one != to and one in names), to
        # The one that is sent on is from, by or of somebody.
        found = re.search(r"(?:from|by|of) (?:the )?([A-Z]\w+)", goal)
        if found and found.group(1) in names:
            sender = found.group(1)
            to = next(one for one in named[::-1] if one != sender and (one in rest or one in names))
        yield click(next(one["text"] for one in messages if one["from"] == sender))
        page = yield None
        yield click(page.one("text", "Forward"))
        page = yield None
        yield fill(page.all("textbox")[0], to)
        yield click(by_class(page.nodes, "send-forward"))
        return
    sender = next(one for one in names if re.search(rf"\b{one}\b", goal))
    message = next(one for one in messages if one["from"] == sender)
    if re.search(r"reply|respond|answer|write back", said) and reply:
        yield click(message["text"])
        page = yield None
        yield click(page.one("text", "Reply"))
        page = yield None
        yield fill(page.all("textbox")[0], reply.group(1).strip())
        yield click(by_class(page.nodes, "send-reply"))
    elif re.search(r"trash|delete|remove|get rid|bin", said):
        yield click(message["trash"])
    elif re.search(r"star|important|highlight|mark|flag", said):
        yield click(message["star"])
    else:
        raise Stuck("what to do with the mail is not understood")


def posts(page, goal):
    """Of each post who wrote it, and its icons."""
    found = []
    for one in area(page, goal):
        if one.role == "text" and re.search(r"@\w+", one.name) and len(one.name.split()) <= 3:
            found.append({"by": re.search(r"@\w+", one.name).group(), "icons": []})
        elif one.role == "clickable" and found:
            found[-1]["icons"].append(one)
    if not found:
        raise Stuck("no posts")
    return found


@plays("social-media")
def _(goal, page):
    user = re.search(r"@\w+", goal).group()
    what = quoted(goal)[0]
    post = next(one for one in posts(page, goal) if one["by"] == user)
    direct = {"Like": "like", "Retweet": "retweet", "Reply": "reply"}
    if what in direct:
        yield click(by_class(post["icons"], direct[what]))
        return
    yield click(by_class(post["icons"], "more"))
    page = yield None
    yield click(next(one for one in page.nodes if one.role in ("listitem", "text") and one.words().startswith(what)
                     and one.ref and one.words() != goal))


@plays("social-media-all", "social-media-some")
def _(goal, page):
    user, what = re.search(r"@\w+", goal).group(), quoted(goal)[0].lower()
    found = re.search(r"on (\d+) post", goal)
    wanted = [one for one in posts(page, goal) if one["by"] == user]
    for post in wanted[: int(found.group(1))] if found else wanted:
        yield click(by_class(post["icons"], {"share": "share"}.get(what, what)))
    yield submit(page)


@plays("tic-tac-toe")
def _(goal, page):
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    for _ in range(5):
        cells = [one for one in page.nodes if one.role == "clickable" and one.name.startswith("ttt-")]
        if not cells:
            raise Stuck("no board")
        marks = {int(one.name.split()[0][4:]): ("x" if "mark-x" in one.name else "o" if "mark-o" in one.name else "")
                 for one in cells}
        free = [at for at in range(9) if marks.get(at) == ""]
        def closing(mark):
            for line in lines:
                held = [marks.get(at) for at in line]
                if held.count(mark) == 2 and held.count("") == 1:
                    return line[held.index("")]
        move = closing("x")
        if move is None:
            move = closing("o")
        if move is None:
            move = next(at for at in (4, 0, 2, 6, 8, 1, 3, 5, 7) if at in free)
        yield click(next(one for one in cells if one.name.split()[0] == f"ttt-{move}"))
        page = yield None


# Dragging


@plays("drag-box")
def _(goal, page):
    small, large = (next(one for one in texts(page, goal) if one.name == name) for name in "sL")
    yield drag(small, large)
    yield submit(page)


@plays("drag-items-grid")
def _(goal, page):
    items = page.all("listitem")
    name = re.search(r"Drag (\S+)", goal).group(1)
    at = next(at for at, one in enumerate(items) if one.words() == name)
    if "by one" in goal:
        by = {"up": -3, "down": 3, "left": -1, "right": 1}
        yield drag(items[at], items[at + next(by[word] for word in by if word in goal)])
        return
    row = 0 if "top" in goal else 2 if "bottom" in goal else 1
    column = 0 if "left" in goal else 2 if "right" in goal else 1
    yield drag(next(one for one in items if one.words() == name), items[row * 3 + column])


@plays("drag-items")
def _(goal, page):
    items = page.all("listitem")
    at = next(at for at, one in enumerate(items) if one.words() == re.search(r"Drag (\S+)", goal).group(1))
    if "up" in goal:
        to = at - 1
    elif "down" in goal:
        to = at + 1
    else:
        to = ordinal(goal)
    yield drag(items[at], items[to])


@plays("drag-sort-numbers")
def _(goal, page):
    for place in range(10):
        items = page.all("listitem")
        values = [int(one.words()) for one in items]
        if values == sorted(values):
            break
        if place < len(values) and values[place] != sorted(values)[place]:
            yield drag(items[values.index(sorted(values)[place])], items[place])
            page = yield None
    yield submit(page)


@plays("daily-calendar")
def _(goal, page):
    amount, unit = re.search(r"([\d.]+) (hour|min)", goal).groups()
    halves = round(float(amount) * 2) if unit == "hour" else int(amount) // 30
    hours = [int(hour) % 12 + (12 if half == "PM" else 0) for hour, half in re.findall(r"(\d+)([AP]M)", goal)]
    start, end = hours if len(hours) == 2 else (0, 24)
    cells = {one.name.split()[0]: one for one in page.all("clickable", has="half-hour")}
    for first in range(start * 2, end * 2 - halves + 1):
        yield drag(cells[f"hh-{first}"], cells[f"hh-{first + halves - 1}"])
        page = yield None
        if page.all("button", "Create"):
            name = quoted(goal)
            if name:
                yield fill(page.one("textbox"), name[0])
            yield submit(page, "Create")
            return
