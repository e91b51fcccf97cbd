import { execFileSync } from 'node:child_process';

const MAKE = `
import base64, hashlib, sys, zipfile
folder, name, version, platform, *needs = sys.argv[1:]
tag = 'py3-none-any' if platform == 'any' else 'cp311-cp311-' + platform
info = name + '-' + version + '.dist-info/'
files = {
    name + '.py': 'VERSION = "%s"' % version,
    info + 'METADATA': 'Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n' % (name, version) + ''.join('Requires-Dist: %s\\n' % need for need in needs),
    info + 'WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: %s\\n' % tag,
}
record = ''.join('%s,sha256=%s,%d\\n' % (path, base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode(), len(text)) for path, text in files.items())
with zipfile.ZipFile('%s/%s-%s-%s.whl' % (folder, name, version, tag), 'w') as z:
    for path, text in {**files, info + 'RECORD': record}.items():
        z.writestr(path, text)
print(hashlib.sha256(open('%s/%s-%s-%s.whl' % (folder, name, version, tag), 'rb').read()).hexdigest())
`;

/**
 * Writes a wheel to `folder`, and returns its SHA-256.
 * @param platform `any`, or the platform of a wheel for Python 3.11
 * @param needs requirements of the package
 */
export function makeWheel(folder: string, name: string, version: string, platform = 'any', ...needs: string[]): string {
  return execFileSync('python3', ['-c', MAKE, folder, name, version, platform, ...needs])
    .toString()
    .trim();
}
