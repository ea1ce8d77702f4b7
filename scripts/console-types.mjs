/**
 * `npm run console:types -- URL`: generates web/api/schema.d.ts from the OpenAPI document of a running host.
 * The generator needs an older TypeScript than this package, so it is not a dependency: npm downloads both for this
 * run.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { consoleDocument, documentFingerprint } from '../web/console-document.ts';

const url = process.argv[2] ?? 'http://127.0.0.1:8080';
const out = fileURLToPath(new URL('../web/api/schema.d.ts', import.meta.url));
const document = await (await fetch(new URL('/openapi.json', url))).json();
const folder = mkdtempSync(join(tmpdir(), 'lathe-types-'));
try {
  const input = join(folder, 'openapi.json');
  writeFileSync(input, JSON.stringify(consoleDocument(document)));
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
    `// Made by npm run console:types, from the document ${documentFingerprint(document)}.\n${written}`,
  );
  spawnSync('npm', ['exec', '--', 'biome', 'format', '--write', out], { stdio: 'inherit' });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
