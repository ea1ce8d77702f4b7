import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseLabArguments } from '../../src/lab-tool/arguments.ts';
import { readHeader } from '../../src/lab/kernel-header.ts';
import { readKernelFlags } from '../../src/lab-tool/kernel-flags.ts';
import { readWgslKernel } from '../../src/lab-tool/local-kernels.ts';
import { UsageError } from '../../src/config/options.ts';

const folder = mkdtempSync(join(tmpdir(), 'lathe-lab-tool-'));
const noFlags = readKernelFlags({});
const file = (name: string, text: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};
const faultsOf = (run: () => unknown): readonly string[] => {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.faults;
    throw error;
  }
  return [];
};
const parse = (line: string) => parseLabArguments(line.split(' '));

describe('directives', () => {
  test('all of them', () => {
    const header = readHeader(
      [
        '// A norm.',
        '//! op: rms_norm',
        '',
        '  //!name:my_norm  ',
        '//! dispatch: ceil(max(tokens, 1) / WG), columns',
        '//! entry: start',
        '//! override WG = 64',
        '//! override eps = 1e-5',
        '//! tune WG = 32, 64,128',
        '//! requires: subgroups, shader-f16',
        '//! dtypes: q8_0',
        '//! bind: layers.*.attn.norm, output.norm',
        'enable subgroups;',
        '// no directive //! op: add',
      ]
        .join('\n')
        .split('\n'),
    );
    expect(header.faults).toEqual([]);
    expect(header).toMatchObject({
      op: 'rms_norm',
      name: 'my_norm',
      entry_point: 'start',
      dispatch: { x: 'ceil(max(tokens, 1) / WG)', y: 'columns' },
      overrides: { WG: 64, eps: 1e-5 },
      tunables: { WG: [32, 64, 128] },
      requires: ['subgroups', 'shader-f16'],
      dtypes: ['q8_0'],
      bind: ['layers.*.attn.norm', 'output.norm'],
    });
  });

  test.each([
    ['//! tuen WG = 3', 5, "unknown directive 'tuen' (did you mean 'tune'?)"],
    ['//! op:', 5, 'op needs a value'],
    ['//! name: My Norm', 5, 'name: expected a lowercase letter'],
    ['//! override WG = many', 5, "override: expected a number for WG, got 'many'"],
    ['//! override WG = ', 5, "override: expected a number for WG, got ''"],
    ['//! override 64', 5, "override: expected NAME = VALUE, got '64'"],
    ['//! tune WG = 32, , 64', 5, 'tune: expected numbers for WG'],
    ['//! requires: f16', 5, "requires: expected shader-f16, subgroups, got 'f16'"],
    ['//! dtypes: q8_1', 5, 'dtypes: expected f32, f16'],
    ['//! dispatch: 1, 2, 3, 4', 5, 'dispatch: expected x, or x, y, z'],
    ['//! dispatch: tokens,', 5, 'dispatch: expected x, or x, y, z'],
    ['//!   entry: 3d', 7, "entry: expected a function name, got '3d'"],
  ])('%s is an error with its location', (line, column, message) => {
    const [fault, ...more] = readHeader(['', line]).faults;
    expect(fault).toMatchObject({ severity: 'error', line: 2, column });
    expect(fault?.message).toContain(message);
    expect(more).toEqual([]);
  });

  test('duplicates, and directives after the first line of WGSL', () => {
    const header = readHeader([
      '//! op: a',
      '//! op: b',
      '//! override W = 1',
      '//! override W = 2',
      'fn f() {}',
      '//! name: x',
    ]);
    expect(header.faults.map(({ line, message }) => [line, message])).toEqual([
      [2, 'op is given twice'],
      [4, 'override: W is given twice'],
      [6, expect.stringContaining('after the first line of WGSL')],
    ]);
    expect(header).toMatchObject({ op: 'a', overrides: { W: 1 } });
  });
});

describe('WGSL files', () => {
  const source = '//! op: rms_norm\n//! dispatch: tokens\nfn main() {}\n';

  test('are sent unchanged, named after the file', async () => {
    const { kernels } = await readWgslKernel(file('My Norm.wgsl', source), noFlags);
    expect(kernels).toMatchObject([
      { registration: { name: 'my_norm', op: 'rms_norm', dispatch: { x: 'tokens' }, source }, faults: [] },
    ]);
  });

  test('a byte order mark and CRLF are removed', async () => {
    const path = file('bom.wgsl', `\uFEFF${source.replaceAll('\n', '\r\n')}`);
    const { kernels } = await readWgslKernel(path, noFlags);
    expect(kernels[0]?.registration?.source).toBe(source);
  });

  test('flags win over directives', async () => {
    const path = file('flags.wgsl', `//! override A = 1\n//! override B = 2\n//! tune C = 1, 2\n${source}`);
    const invocation = parse(
      `check ${path} --op add --name other --dispatch-y 2 --override B=3 --override C=2 --tune B=3,4 --requires subgroups --dtypes f16 --entry-point go`,
    );
    if (invocation.command === 'help' || invocation.command === 'version') throw new Error('not a command');
    const { kernels } = await readWgslKernel(path, readKernelFlags(invocation.flags));
    expect(kernels[0]?.registration?.tunables).toEqual({ B: [3, 4] });
    expect(kernels[0]?.registration).toMatchObject({
      op: 'add',
      name: 'other',
      entry_point: 'go',
      dispatch: { x: 'tokens', y: '2' },
      overrides: { A: 1, B: 3, C: 2 },
      requires: ['subgroups'],
      dtypes: ['f16'],
    });
  });

  test('everything that is missing is reported at once', async () => {
    const { kernels } = await readWgslKernel(file('3.wgsl', ''), noFlags);
    expect(kernels[0]?.registration).toBeUndefined();
    expect(kernels[0]?.faults.map(({ message }) => message.split(/[:;]/)[0])).toEqual([
      'the file name is not a valid kernel name',
      'op is missing',
      'dispatch is missing',
      'the file is empty',
    ]);
  });

  test.each([
    ['nothing.wgsl', 'there is no such file'],
    ['.', 'it is a directory'],
  ])('%s cannot be read', async (name, why) => {
    await expect(readWgslKernel(join(folder, name), noFlags)).rejects.toThrow(why);
  });

  test('other encodings are rejected', async () => {
    const path = file('latin.wgsl', Uint8Array.of(0x2f, 0x2f, 0xe4));
    await expect(readWgslKernel(path, noFlags)).rejects.toThrow('it is not UTF-8 text');
  });
});

describe('the command line', () => {
  test('a command with its arguments and flags', () => {
    expect(parse('bench --rounds 8 --contexts 1,2 --contexts 3 --full --json')).toEqual({
      command: 'bench',
      words: [],
      flags: { rounds: 8, contexts: ['1,2', '3'], full: true, json: true },
    });
    expect(parse('bind k layers.*.norm').command).toBe('bind');
    expect(parse('check --help')).toEqual({ command: 'help' });
    expect(parse('-v')).toEqual({ command: 'version' });
  });

  test('all errors at once, with suggestions', () => {
    expect(faultsOf(() => parse('ops x --josn --rounds many --target'))).toEqual([
      'unknown flag --josn (did you mean --json?)',
      '--rounds: expected a number, got "many"',
      '--target needs a value',
      "ops takes no arguments, got 'x'",
    ]);
    expect(faultsOf(() => parse('chekc k.wgsl'))[0]).toContain(
      "unknown command 'chekc' (did you mean 'check'?)",
    );
    expect(faultsOf(() => parse('check'))).toEqual(['check takes FILE..., got none']);
    expect(faultsOf(() => parse('ops --force'))).toEqual(['--force does not belong to the command ops']);
    expect(faultsOf(() => parse('check k --op --json'))).toEqual(['--op needs a value']);
    expect(faultsOf(() => parse('check k --json=no'))).toEqual(['--json takes no value, got "no"']);
    expect(
      faultsOf(() => readKernelFlags({ override: ['WG'], tune: ['WG=a'], requires: ['x'], name: 'X' })),
    ).toHaveLength(4);
  });
});
