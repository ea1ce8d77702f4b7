/** The Kubernetes manifests of `deploy/` have the types of Kubernetes' own objects, without members that these do not know. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { parse } from 'yaml';

const root = fileURLToPath(new URL('../../', import.meta.url));
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
}
/** Custom resources, which other tests compare with their published schemas, and files that only kustomize reads. */
const others = new Set(['InferencePool', 'ScaledObject', 'Kustomization']);
const manifests = ['deploy/kubernetes', 'deploy/kubernetes/hosts'].flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.yaml'))
    .map(
      (name) =>
        [`${folder}/${name}`, parse(readFileSync(join(root, folder, name), 'utf8')) as Manifest] as const,
    )
    .filter(([, { kind }]) => !others.has(kind)),
);

// The types are found from a folder within the checkout.
mkdirSync(join(root, 'node_modules/.cache'), { recursive: true });
const folder = mkdtempSync(join(root, 'node_modules/.cache/manifests-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Module of an API version: `apps/v1` is that name, `v1` is `core/v1`, `networking.k8s.io/v1` is `networking/v1`. */
const moduleOf = (apiVersion: string): string =>
  apiVersion.includes('/') ? apiVersion.replace('.k8s.io', '') : `core/${apiVersion}`;

/** Checks object literals, in which the compiler rejects unknown members at every depth. @returns its errors */
function errorsOf(objects: readonly (readonly [name: string, manifest: Manifest])[]): string[] {
  const lines = objects.map(
    ([name, manifest], index) =>
      `/* ${name} */ export const _${index}: import('kubernetes-types/${moduleOf(manifest.apiVersion)}').${manifest.kind} = ${JSON.stringify(manifest)};`,
  );
  const file = join(folder, 'manifests.ts');
  writeFileSync(file, lines.join('\n'));
  try {
    execFileSync(
      process.execPath,
      [
        join(root, 'node_modules/typescript/bin/tsc'),
        '--ignoreConfig',
        '--noEmit',
        '--strict',
        '--skipLibCheck',
        '--module',
        'esnext',
        '--moduleResolution',
        'bundler',
        '--types',
        '',
        file,
      ],
      { encoding: 'utf8', stdio: 'pipe' },
    );
    return [];
  } catch (error) {
    const { stdout } = error as { stdout: string };
    return stdout.trim().split('\n');
  }
}

test('are all objects of Kubernetes, complete and without unknown members', () => {
  expect(manifests.length).toBeGreaterThan(10);
  expect(errorsOf(manifests)).toEqual([]);
});

test.each([
  ['an unknown member', (text: string) => text.replace('"livenessProbe"', '"livenesProbe"'), /livenesProbe/],
  ['a wrong type', (text: string) => text.replace(/"containerPort":\d+/, '"containerPort":"8090"'), /string/],
  ['a missing member', (text: string) => text.replace(/"selector":\{.*?\}\},/, ''), /selector/],
])('%s of a manifest is found', (_, change, message) => {
  const found = manifests.find(([, { kind }]) => kind === 'Deployment');
  if (!found) throw new Error('no Deployment');
  const [name, manifest] = found;
  const changed = change(JSON.stringify(manifest));
  expect(changed).not.toBe(JSON.stringify(manifest));
  expect(errorsOf([[name, JSON.parse(changed) as Manifest]]).join('\n')).toMatch(message);
});
