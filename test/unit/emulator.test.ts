import { describe, expect, it } from 'vitest';
import { matmulMatrix } from '../../kernels/matmul.ts';
import { assemble } from '../../kernels/assemble.ts';
import { AccessRecorder } from '../../src/lab/emulator/access-recorder.ts';
import { EmulatedKernel } from '../../src/lab/emulator/emulate.ts';
import { nodePlatform } from '../../src/platform/node.ts';

const threads = 16;

/** `out` has a word for each of two workgroups' invocations. Lines of `body` begin at 1. */
function run(body: string, declarations = '', { subgroupSize = 8, findsRaces = true } = {}) {
  const code = `enable subgroups; enable f16; @group(0) @binding(0) var<storage, read_write> out: array<u32>; ${declarations} @compute @workgroup_size(${threads}) fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) group: vec3<u32>) { let at = group.x * ${threads}u + local;${body}\n}`;
  const out = new Uint32Array(2 * threads);
  const findings = new EmulatedKernel(code, { isTraced: findsRaces }).dispatch({
    buffers: { out },
    grid: [2, 1, 1],
    subgroupSize,
    findsRaces,
  });
  return { out, findings, kinds: findings.map(({ kind, line }) => `${line} ${kind}`) };
}

describe('races', () => {
  const words = `var<workgroup> words: array<u32, ${threads}>;`;
  it.each<[name: string, body: string, declarations: string, expected: string[]]>([
    [
      'none with a barrier between writing and reading',
      '\nwords[local] = local;\nworkgroupBarrier();\nout[at] = words[15u - local];',
      words,
      [],
    ],
    [
      'reading what another writes',
      '\nwords[local] = local;\nout[at] = words[15u - local];',
      words,
      ['3 race'],
    ],
    [
      'writing what another has read',
      '\nlet mine = words[15u - local];\nwords[local] = mine;\nout[at] = mine;',
      words,
      ['3 race'],
    ],
    [
      'writing what another has read, some barriers ago none',
      '\nlet mine = words[15u - local];\nworkgroupBarrier();\nwords[local] = mine;\nout[at] = mine;',
      words,
      [],
    ],
    ['two writers', '\nwords[local / 2u] = local;', words, ['2 race']],
    [
      'a subgroup operation orders nothing',
      '\nwords[local] = local;\nlet sum = subgroupAdd(local);\nout[at] = words[local ^ 1u] + sum;',
      words,
      ['4 race'],
    ],
    [
      'the barrier of workgroup memory orders no buffer',
      '\nout[at] = local;\nworkgroupBarrier();\nlet other = out[at ^ 1u];\nworkgroupBarrier();\nwords[local] = other;',
      words,
      ['4 race'],
    ],
    [
      'that of buffers does',
      '\nout[at] = local;\nstorageBarrier();\nlet other = out[at ^ 1u];\nworkgroupBarrier();\nwords[local] = other;',
      words,
      [],
    ],
    [
      'two workgroups, whatever barriers there are',
      '\nstorageBarrier();\nif (local == 0u) { out[0] = group.x; }',
      '',
      ['3 race'],
    ],
    [
      'many readers',
      '\nif (local == 3u) { words[5] = 7u; }\nworkgroupBarrier();\nout[at] = words[5];',
      words,
      [],
    ],
    [
      'a later writer of what many have read',
      '\nout[at] = words[5];\nif (local == 3u) { words[5] = 7u; }',
      words,
      ['3 race'],
    ],
    [
      'atomics among themselves',
      '\natomicAdd(&count, 1u);\nworkgroupBarrier();\nout[at] = atomicLoad(&count);',
      'var<workgroup> count: atomic<u32>;',
      [],
    ],
    [
      'a uniform load, which has its own barriers',
      '\nif (local == 0u) { words[0] = 9u; }\nlet nine = workgroupUniformLoad(&words[0]);\nwords[local] = nine;\nout[at] = nine;',
      words,
      [],
    ],
    [
      'halves of a word that two write',
      '\nhalves[local] = f16(local);\nworkgroupBarrier();\nout[at] = u32(halves[local ^ 1u]);',
      `var<workgroup> halves: array<f16, ${threads}>;`,
      [],
    ],
  ])('%s', (_, body, declarations, expected) => {
    // Whichever access comes second is found, in each order that occurs.
    const { kinds } = run(body, declarations);
    if (expected.length === 0) expect(kinds).toEqual([]);
    else expect(kinds).toContain(expected[0]);
  });

  it('names both places', () => {
    const { findings } = run('\nwords[local] = local;\nout[at] = words[15u - local];', words);
    expect(findings).toContainEqual({
      kind: 'race',
      line: 3,
      column: 11,
      length: 5,
      message: 'one invocation reads here what another writes at 2:1, with no barrier in between',
    });
  });

  it('finds a barrier that is missing in a kernel for matrix units', async () => {
    const variant = matmulMatrix.variants.find(({ FORMAT, STEP }) => FORMAT === 'q8_0' && STEP === 2);
    if (!variant) throw new Error('no such variant');
    const sources = await nodePlatform().wgsl();
    const code = assemble(sources, matmulMatrix.source, variant);
    const dispatch = (text: string) => {
      const [rows, blocks, tokens] = [64, 4, 37];
      const buffers = {
        quants: new Uint32Array(rows * blocks * 8),
        scales: new Uint32Array(rows * blocks),
        vectors: new Float32Array(4),
        x: new Float32Array(tokens * blocks * 32),
        y: new Float32Array(tokens * rows),
        params: Uint32Array.of(rows, blocks, rows, 0, 0, 0, 0, 0, 0, 0, 0, 1024, 0x3f800000, 0, 0, 0),
        step: Uint32Array.of(tokens, 0, 0, 0),
        squares: new Float32Array(4),
        scaled: new Float32Array(4),
      };
      return new EmulatedKernel(text, { isTraced: true })
        .dispatch({ buffers, grid: [1, 1, 1], subgroupSize: 32, findsRaces: true })
        .map(({ kind }) => kind);
    };
    expect(dispatch(code)).toEqual([]);
    const barrier = 'workgroupBarrier();';
    const places = [...code.matchAll(/workgroupBarrier\(\);/g)].map(({ index }) => index);
    expect(places.length).toBeGreaterThan(5);
    const missed = places.filter(
      (place) => !dispatch(code.slice(0, place) + code.slice(place + barrier.length)).includes('race'),
    );
    // The first of each strip of results only separates it from the products, which read other memory.
    expect(missed.length).toBeLessThanOrEqual(1);
  });
});

describe('accesses to memory', () => {
  const lanes = 32;
  const recorderOf = (body: string) => {
    const code = `@group(0) @binding(0) var<storage, read> given: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
var<workgroup> tile: array<u32, 4096>;
@compute @workgroup_size(${lanes}) fn main(@builtin(local_invocation_index) local: u32) {
${body}
}`;
    let recorder: AccessRecorder | undefined;
    new EmulatedKernel(code, { isTraced: true }).dispatch({
      buffers: {
        given: new Float32Array(65_536),
        words: new Uint32Array(65_536),
        out: new Uint32Array(65_536),
      },
      grid: [1, 1, 1],
      subgroupSize: lanes,
      makeTracer: (...parts) => (recorder = new AccessRecorder(...parts)),
    });
    if (!recorder) throw new Error('no workgroup ran');
    return recorder;
  };
  const sitesOf = (body: string) =>
    recorderOf(body)
      .sites()
      .filter(({ name }) => name !== 'out');

  it.each<[name: string, index: string, needed: number, touched: number]>([
    ['neighbors', 'local', 4, 4],
    ['one word for all', '7u', 1, 1],
    ['a stride of 4 words', '4u * local', 4, 16],
    ['a stride of 32 words', '32u * local', 4, 32],
    ['neighbors across sectors', 'local + 3u', 4, 5],
  ])('sectors: %s', (_, index, neededSectors, sectors) => {
    expect(sitesOf(`out[local] = words[${index}];`)).toMatchObject([
      { name: 'words', space: 'storage', writes: false, requests: 1, neededSectors, sectors, line: 6 },
    ]);
  });

  it('sectors of vectors, which lanes read whole', () => {
    expect(sitesOf('out[local] = u32(given[local].x + given[local].y);')).toMatchObject([
      { neededSectors: 4, sectors: 16 },
      { neededSectors: 4, sectors: 16 },
    ]);
    expect(sitesOf('let four = given[local]; out[local] = u32(four.x + four.y);')).toMatchObject([
      { neededSectors: 16, sectors: 16 },
    ]);
  });

  it.each<[name: string, index: string, ways: number]>([
    ['neighbors', 'local', 1],
    ['one word for all', '5u', 1],
    ['a stride of 2', '2u * local', 2],
    ['a stride of 32', '32u * local', 32],
    ['a padded stride', '33u * local', 1],
  ])('banks: %s', (_, index, bankConflict) => {
    expect(sitesOf(`tile[${index}] = local; out[local] = 1u;`)).toMatchObject([
      { name: 'tile', space: 'workgroup', writes: true, bankConflict },
    ]);
  });

  it('what a workgroup fetches, each sector once', () => {
    const body = 'for (var i = 0u; i < 5u; i++) { out[local] = words[2u * local]; }';
    // Every second word of 32: half of each sector.
    expect(recorderOf(body).fetched()).toEqual([{ name: 'words', bytes: 128, sectors: 8 }]);
  });

  it('counts each turn of a loop', () => {
    expect(sitesOf('for (var i = 0u; i < 5u; i++) { out[local] += words[local + 32u * i]; }')).toMatchObject([
      { requests: 5, neededSectors: 20, sectors: 20 },
    ]);
  });
});

describe('invocations that do not stay together', () => {
  it.each<[name: string, body: string, expected: string[]]>([
    [
      'a barrier that half of them reach',
      '\nif (local < 8u) {\nworkgroupBarrier();\n}',
      ['3 nonuniform_barrier'],
    ],
    [
      'a barrier after some have returned',
      '\nif (local == 3u) { return; }\nworkgroupBarrier();',
      ['3 nonuniform_barrier'],
    ],
    [
      'a subgroup operation that some lanes reach',
      '\nif (local % 8u < 5u) {\nout[at] = subgroupAdd(1u);\n}',
      ['3 nonuniform_subgroup_operation'],
    ],
    [
      'a subgroup operation that a whole subgroup leaves out',
      '\nif (local < 8u) {\nout[at] = subgroupAdd(1u);\n}',
      [],
    ],
    [
      'a shuffle from a lane that does not take part',
      '\nif (local % 8u != 2u) {\nout[at] = subgroupShuffle(local, 2u);\n}',
      ['3 nonuniform_subgroup_operation', '3 inactive_lane'],
    ],
    [
      'loops of different lengths',
      '\nfor (var i = 0u; i < local % 8u; i++) {\nout[at] += subgroupAdd(1u);\n}',
      ['3 nonuniform_subgroup_operation'],
    ],
  ])('%s', (_, body, expected) => {
    expect(run(body).kinds).toEqual(expected);
  });

  it('executes an operation with the lanes that reach it', () => {
    const { out } = run('\nif (local % 8u < 5u) {\nout[at] = subgroupAdd(1u);\n}');
    expect([...out.subarray(0, 8)]).toEqual([5, 5, 5, 5, 5, 0, 0, 0]);
  });
});

describe('memory', () => {
  it('finds an index out of bounds, with its place', () => {
    const { findings } = run(
      '\nout[at + 1u] = words[local + 1u];',
      `var<private> words: array<u32, ${threads}>;`,
      { findsRaces: false },
    );
    expect(findings.map(({ kind, line, message }) => [kind, line, message])).toEqual([
      ['index_out_of_bounds', 2, `index ${threads} of an array of ${threads}`],
      ['index_out_of_bounds', 2, `index ${2 * threads} of an array of ${2 * threads}`],
    ]);
  });

  it.each(['zeros', 'poison'] as const)(
    'workgroup memory holds %s before it is written',
    (workgroupMemory) => {
      const out = new Uint32Array(threads);
      new EmulatedKernel(
        `var<workgroup> words: array<u32, ${threads}>;
      @group(0) @binding(0) var<storage, read_write> out: array<u32>;
      @compute @workgroup_size(${threads}) fn main(@builtin(local_invocation_index) local: u32) { out[local] = words[local]; words[local] = 3u; }`,
      ).dispatch({ buffers: { out }, grid: [2, 1, 1], subgroupSize: 4, workgroupMemory });
      expect(new Set(out)).toEqual(new Set([workgroupMemory === 'zeros' ? 0 : 0x7fc0dead]));
    },
  );

  it('fails with the name of a buffer that is not given', () => {
    const kernel = new EmulatedKernel(
      '@group(0) @binding(0) var<storage, read_write> sums: array<u32>; @compute @workgroup_size(1) fn main() { sums[0] = 1u; }',
    );
    expect(() => kernel.dispatch({ buffers: {}, grid: [1, 1, 1], subgroupSize: 4 })).toThrow(
      'no buffer for sums',
    );
  });
});

describe('what is not supported', () => {
  it.each([
    [
      '@group(0) @binding(0) var image: texture_2d<f32>; @compute @workgroup_size(1) fn main() { let a = textureLoad(image, vec2(0, 0), 0); }',
      'the type texture_2d<f32>',
    ],
    ['@compute @workgroup_size(1) fn main() { let a = dpdx(1.0); }', 'the function dpdx'],
    ['@fragment fn main() {}', 'a module without this entry point'],
  ])('%s', (code, construct) => {
    expect(() => new EmulatedKernel(code)).toThrow(`The emulator does not support ${construct}.`);
  });

  it('ends a kernel whose functions call each other too often, and compiles it', () => {
    const depth = 40;
    const functions = Array.from(
      { length: depth },
      (_, n) => `fn f${n}(a: u32) -> u32 { return f${n + 1}(a) + f${n + 1}(a + 1u); }`,
    );
    const code = `@group(0) @binding(0) var<storage, read_write> out: array<u32>; fn f${depth}(a: u32) -> u32 { return a; } ${functions.join(' ')} @compute @workgroup_size(1) fn main() { out[0] = f0(1u); }`;
    const dispatch = {
      buffers: { out: new Uint32Array(1) },
      grid: [1, 1, 1] as const,
      subgroupSize: 4,
      maxTurns: 1e5,
    };
    expect(() => new EmulatedKernel(code).dispatch(dispatch)).toThrow('may not end');
  });

  it('ends a loop without end', () => {
    const kernel = new EmulatedKernel(
      '@group(0) @binding(0) var<storage, read_write> out: array<u32>; @compute @workgroup_size(1) fn main() { loop { out[0] += 1u; if (out[0] == 0u) { break; } } }',
    );
    expect(() =>
      kernel.dispatch({
        buffers: { out: new Uint32Array(1) },
        grid: [1, 1, 1],
        subgroupSize: 4,
        maxTurns: 1e5,
      }),
    ).toThrow('may not end');
  });
});
