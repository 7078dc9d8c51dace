"""Texts that do something where they are written or printed as they are."""

ATTACKS: dict[str, str] = {
    "lines": "a\nsgxline\r\nsgxline\u2028sgxline\x85sgxline\x0bsgxline\\",
    "terminal": "a\x1b]0;sgx\x07\x1b[31m\x9b31m\x7f\x08\x00\u202eb\u200b\ud800",
    "markup": "a [bold]sgxbold[/bold] [link=http://sgx.example]b[/link]",
    "tex": "a\n\\immediate\\write18{sgx}",
    "tex on one line": "}\\input{sgx}^^5cinput{sgx} $\\sgx$ %",
    "html": '"\'><sgxlive sgxattr="1"></script></style></title></textarea><sgxlive>]]>--><sgxlive onload=1>',
    "attribute": '" sgxattr="1" \'  sgxattr=\'1',
    "address": "javascript:sgx()",
    "formula": "=sgx()|'a'!A0",
    "formula after a tab": "\t@sgx",
    "markdown": "[sgx](http://sgx.example) ![sgx](a) <sgxlive> `a` **b** _c_ ~~d~~ www.sgx.example | @sgx &lt;",
    "markdown of blocks": "# a | b\n\n| c |\n|---|\n<sgxlive>\n\n[d]: http://sgx.example",
}
"""By what they attack. `sgx` marks them, so that what is found can be told from what the commands write themselves."""
WORST = "=sgx() " + " ".join(ATTACKS.values())
"""All at once, for a first look at a file."""
NAME = "=sgx()\n\x1b[31msgxline\u202e<sgxlive>|[a](b)"
"""For classes and files of images: what a file system takes."""
