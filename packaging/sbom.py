#!/usr/bin/python3
"""Writes the list of parts of a release, in SPDX 2.3.

    packaging/sbom.py VERSION FOLDER      writes FOLDER/vkattn-VERSION.spdx.json for the files in FOLDER
"""
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys


def parts():
    """Name, Debian package and license of each library that is compiled into some of the files."""
    for line in pathlib.Path(__file__).with_name("parts.txt").read_text().splitlines():
        if not line.startswith("#"):
            yield line.split()[:3]


def version_of(package):
    found = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True, check=False)
    return found.stdout or "NOASSERTION"


def package(name, version, licence, **further):
    return {"SPDXID": f"SPDXRef-{name}", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseDeclared": licence, "licenseConcluded": licence, "copyrightText": "NOASSERTION", **further}


def document(version, folder):
    files = sorted(path for path in folder.iterdir() if path.is_file())
    made = [{"SPDXID": f"SPDXRef-File-{number}", "fileName": f"./{path.name}", "copyrightText": "NOASSERTION",
             "licenseConcluded": "Apache-2.0",
             "checksums": [{"algorithm": kind, "checksumValue": hashlib.new(kind.lower(), path.read_bytes()).hexdigest()}
                           for kind in ("SHA1", "SHA256")]} for number, path in enumerate(files)]
    contained = [package(name, version_of(debian), licence) for name, debian, licence in parts()]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-vkattn")]
    relations += [("SPDXRef-vkattn", "GENERATES", entry["SPDXID"]) for entry in made]
    relations += [("SPDXRef-vkattn", "STATIC_LINK", part["SPDXID"]) for part in contained]
    digest = hashlib.sha256("".join(entry["checksums"][1]["checksumValue"] for entry in made).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"vkattn-{version}",
        "documentNamespace": f"urn:vkattn:{version}:{digest}",
        "creationInfo": {"created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: packaging/sbom.py"]},
        "packages": [package("vkattn", version, "Apache-2.0"), *contained], "files": made,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                          for one, kind, other in relations],
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    version, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    (folder / f"vkattn-{version}.spdx.json").write_text(json.dumps(document(version, folder), indent=1) + "\n")


main()
