/** What bench/gpu/bundle.sh packs for a bare machine: every package that its tests and benches begin with. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** An import or export statement of one or more lines; type-only ones are erased before the code runs. */
const statement = /^(?:import|export)\s+(?!type\b)(?:[^'";]*?\sfrom\s+)?'([^']+)'/gm;
const required = /\brequire\('([^']+)'\)/g;

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');

/** Packages that these files import, and what they import of ours. */
function importedFrom(files: readonly string[]): ReadonlyMap<string, string> {
  const packages = new Map<string, string>();
  const seen = new Set<string>();
  const open = [...files];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (seen.has(path) || !existsSync(path)) continue;
    seen.add(path);
    const source = readFileSync(path, 'utf8');
    for (const [, specifier = ''] of [...source.matchAll(statement), ...source.matchAll(required)]) {
      if (specifier.startsWith('.')) open.push(join(dirname(path), specifier));
      else if (!specifier.startsWith('node:')) packages.set(packageOf(specifier), path.slice(root.length));
    }
  }
  return packages;
}

describe('the bundle for a bare GPU machine', () => {
  it('has every package that its tests and benches import', () => {
    const script = readFileSync(join(root, 'bench/gpu/bundle.sh'), 'utf8');
    const command = script.replaceAll('\\\n', ' ');
    const [, names = ''] = /^copy_packages node_modules "\$app\/node_modules" (.*)$/m.exec(command) ?? [];
    // `expect` of vitest is packed by itself; peers have a folder of packages of their own.
    const packed = new Set(['vitest', ...names.split(/\s+/)]);
    const files = globSync(['test/{gpu,golden}/**/*.test.ts', 'bench/run.ts', 'bench/gpu/*.ts'], {
      cwd: root,
    });
    expect(files.length).toBeGreaterThan(40);
    const imported = importedFrom(files.map((file) => join(root, file)));
    expect([...imported.keys()]).toContain('tinybench');
    const missing = [...imported].filter(([name]) => !packed.has(name));
    expect(missing).toEqual([]);
  });
});
