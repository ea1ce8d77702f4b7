/**
 * `npm run console:types -- URL`: generates web/api/schema.d.ts from the OpenAPI document of a running host.
 * `npm run gateway:types -- URL`: generates web/api/gateway-schema.d.ts from that of a gateway's operator listener.
 * The generator needs an older TypeScript than this package, so it is not a dependency: npm downloads both for this
 * run.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { consoleDocument, consolePaths, documentFingerprint, gatewayPaths } from '../web/console-document.ts';

const isGateway = process.argv[2] === '--gateway';
const [url = isGateway ? 'http://127.0.0.1:9090' : 'http://127.0.0.1:8080'] = process.argv.slice(
  isGateway ? 3 : 2,
);
const usedPaths = isGateway ? gatewayPaths : consolePaths;
const file = isGateway ? 'gateway-schema.d.ts' : 'schema.d.ts';
const out = fileURLToPath(new URL(`../web/api/${file}`, import.meta.url));
const document = await (await fetch(new URL('/openapi.json', url))).json();
const folder = mkdtempSync(join(tmpdir(), 'lathe-types-'));
try {
  const input = join(folder, 'openapi.json');
  writeFileSync(input, JSON.stringify(consoleDocument(document, usedPaths)));
  const packages = ['--package=openapi-typescript@7.13.0', '--package=typescript@5.9.3'];
  const { status } = spawnSync(
    'npm',
    ['exec', '--yes', ...packages, '--', 'openapi-typescript', input, '-o', out],
    { stdio: 'inherit' },
  );
  if (status !== 0) process.exit(status ?? 1);
  const written = readFileSync(out, 'utf8');
  writeFileSync(
    out,
    `// Made by npm run ${isGateway ? 'gateway' : 'console'}:types, from the document ${documentFingerprint(document, usedPaths)}.\n${written}`,
  );
  spawnSync('npm', ['exec', '--', 'biome', 'format', '--write', out], { stdio: 'inherit' });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
