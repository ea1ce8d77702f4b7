/**
 * `node bench/gpu/closure.ts FOLDER PACKAGE...`: the packages, and all that they depend on, which a `node_modules` folder
 * holds, a name a line. Optional dependencies are left out: what of them is wanted is named.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder = '', ...roots] = process.argv.slice(2);
const found = new Set<string>();
const wanted = [...roots];
for (let name = wanted.pop(); name !== undefined; name = wanted.pop()) {
  const path = join(folder, name, 'package.json');
  if (found.has(name)) continue;
  if (!existsSync(path)) throw new Error(`${name} is not in ${folder}`);
  found.add(name);
  const { dependencies = {} } = JSON.parse(readFileSync(path, 'utf8')) as {
    readonly dependencies?: Readonly<Record<string, string>>;
  };
  wanted.push(...Object.keys(dependencies));
}
console.log([...found].sort().join('\n'));
