"""The @browser repository: finds what tests of the dashboard's page take, or says what is missing.

@browser//:defs.bzl always exists. BROWSER_MISSING is "" where all is there: Node,
Chromium, and the modules that tools/dashboard/browser/package-lock.json names, as
`./carillon test` installs them. `bazel sync --configure` looks again.
"""

_OLDEST_NODE = 18
_LOCK = "//tools/dashboard/browser:package-lock.json"
_FROM_NPM = "node_modules/"

def _node_error(ctx, node):
    if not node:
        return "no node in PATH"
    asked = ctx.execute([node, "--version"])
    release = asked.stdout.strip().lstrip("v")
    if asked.return_code != 0 or not release.split(".")[0].isdigit():
        return "%s --version failed: %s" % (node, asked.stderr)
    if int(release.split(".")[0]) < _OLDEST_NODE:
        return "%s is Node %s; needs %d or newer" % (node, release, _OLDEST_NODE)
    return None

def _modules_error(ctx, modules):
    locked = json.decode(ctx.read(Label(_LOCK)))["packages"]
    for path, entry in locked.items():
        if not path.startswith(_FROM_NPM):
            continue
        name = path[len(_FROM_NPM):]
        manifest = ctx.path(modules + "/" + name + "/package.json")
        if not manifest.exists:
            return "no module %s in %s" % (name, modules)
        found = json.decode(ctx.read(manifest))["version"]
        if found != entry["version"]:
            return "%s has %s %s; the lock says %s" % (modules, name, found, entry["version"])
    return None

def _browser_impl(ctx):
    node = ctx.which("node")
    chromium = ctx.which("chromium")
    modules = ctx.os.environ.get("HOME", "") + "/.cache/carillon/browser/node_modules"
    missing = _node_error(ctx, node) or _modules_error(ctx, modules)
    if not missing and not chromium:
        missing = "no chromium in PATH"
    ctx.file("defs.bzl", "\n".join([
        "BROWSER_MISSING = %r" % (missing or ""),
        "NODE = %r" % str(node or ""),
        "CHROMIUM = %r" % str(chromium or ""),
        "MODULES = %r" % modules,
    ]) + "\n", executable = False)
    ctx.file("BUILD", "", executable = False)

browser = repository_rule(
    implementation = _browser_impl,
    environ = ["HOME", "PATH"],
    configure = True,
    local = True,
)
