import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import { readWgslSource } from '../../src/lab-tool/local-kernels.ts';

const folder = 'test/fixtures/lab-gate-open';
const files = globSync(`${folder}/*.wgsl`);

it('kernels that the gate does not find can be tried again: they are read, and the page names them', () => {
  const page = readFileSync(`${folder}/README.md`, 'utf8');
  const named = [...page.matchAll(/^\| `([\w-]+)`/gm)].map(([, name]) => `${name}.wgsl`);
  expect(files.map((file) => basename(file)).toSorted()).toEqual(named.toSorted());
  for (const file of files) {
    const [kernel] = readWgslSource(readFileSync(file, 'utf8'), file).kernels;
    expect(kernel?.faults, file).toEqual([]);
    expect(contracts.has(kernel?.registration?.op ?? ''), file).toBe(true);
  }
});
