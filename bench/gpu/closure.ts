/**
 * `node bench/gpu/closure.ts FOLDER PACKAGE...`: prints the packages in a `node_modules` folder and their transitive
 * dependencies, one name per line. Optional dependencies are not followed; name those that you need.
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
