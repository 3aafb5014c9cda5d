"""Writes what Xalan-C transforms: a catalogue of records, and a stylesheet that sorts, groups and
counts them.

Invariant: both depend on the argument alone, the number of records. The lab runs it once.
"""

import random
import sys
from pathlib import Path

_STYLE = """<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="html"/>
<xsl:key name="of-maker" match="record" use="maker"/>
<xsl:template match="/catalogue"><html><body>
<xsl:for-each select="record[generate-id() = generate-id(key('of-maker', maker)[1])]">
<xsl:sort select="maker"/>
<h2><xsl:value-of select="maker"/></h2>
<p><xsl:value-of select="count(key('of-maker', maker))"/> records,
<xsl:value-of select="sum(key('of-maker', maker)/price)"/> in all</p>
<table><xsl:apply-templates select="key('of-maker', maker)">
<xsl:sort select="price" data-type="number" order="descending"/>
</xsl:apply-templates></table>
</xsl:for-each></body></html></xsl:template>
<xsl:template match="record"><tr><td><xsl:value-of select="position()"/></td>
<td><xsl:value-of select="concat(substring-before(concat(title, ' '), ' '), ' (', @id, ')')"/></td>
<td><xsl:value-of select="translate(normalize-space(title), 'aeiou', 'AEIOU')"/></td>
<td><xsl:value-of select="format-number(price, '#,##0.00')"/></td></tr></xsl:template>
</xsl:stylesheet>
"""


def catalogue(records: int) -> str:
    rng = random.Random(13)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(2000)]
    makers = [word.capitalize() for word in words[:50]]
    lines = (
        f'<record id="r{number}"><maker>{rng.choice(makers)}</maker>'
        f"<title>{' '.join(rng.choices(words, k=rng.randint(2, 12)))}</title>"
        f"<price>{rng.randrange(100, 100000) / 4}</price></record>"
        for number in range(records)
    )
    return "<catalogue>\n" + "\n".join(lines) + "\n</catalogue>\n"


if __name__ == "__main__":
    Path("catalogue.xml").write_text(catalogue(int(sys.argv[1])), encoding="ascii")
    Path("pages.xsl").write_text(_STYLE, encoding="ascii")
