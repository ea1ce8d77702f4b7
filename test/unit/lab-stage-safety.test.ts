import { describe, expect, it } from 'vitest';
import { assemble, type WgslSources } from '../../kernels/assemble.ts';
import { contracts } from '../../kernels/contracts.ts';
import { kernels } from '../support/all-kernels.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { findingCodes } from '../../src/lab/stages/codes.ts';
import { checkSafety } from '../../src/lab/stages/safety.ts';
import { reflect } from '../../src/lab/wgsl/reflect.ts';
import { nullDevice } from '../support/null-gpu.ts';
import { runsRest, selectVariants } from '../support/tier.ts';

const brief = (source: string): string[] =>
  checkSafety(reflect(source)).map(({ code, severity, line, column, length }) =>
    line === undefined ? `${code} ${severity}` : `${code} ${severity} ${line}:${column}+${length}`,
  );

const head = `@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@group(0) @binding(2) var<uniform> count: vec4<u32>;
var<workgroup> flags: array<atomic<u32>, 64>;
var<workgroup> shared_count: u32;
var<private> own: u32;
fn ready(i: u32) -> bool { return atomicLoad(&flags[i]) != 0u; }
fn following(i: u32) -> u32 { return x[i]; }
fn advance(i: ptr<function, u32>) { *i += 1u; }
fn step_own() { own += 1u; }
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
`;
/** Source whose line 13 is the body; `y` and `flags` are used in any case. */
const withBody = (body: string): string =>
  `${head}${body}\n  y[0] = atomicLoad(&flags[0]) + shared_count + own; }`;

const loops: readonly (readonly [what: string, body: string, code: string | undefined])[] = [
  // Loops that wait for other invocations.
  ['flag', 'while (atomicLoad(&flags[0]) == 0u) {}', 'spin_wait'],
  ['flag with a mask', 'let mask = 4u; while ((atomicLoad(&flags[0]) & mask) == 0u) {}', 'spin_wait'],
  [
    'flag of another invocation',
    'loop { if (atomicLoad(&flags[local ^ 1u]) == 1u) { break; } }',
    'spin_wait',
  ],
  [
    'flag through a variable',
    'for (;;) { let seen = atomicLoad(&flags[0]); let done = seen > 2u; if (done) { break; } }',
    'spin_wait',
  ],
  [
    'flag through a var',
    'var seen = 0u; loop { seen = atomicLoad(&flags[0]); if (seen > 2u) { return; } }',
    'spin_wait',
  ],
  ['flag in a function', 'while (!ready(local)) {}', 'spin_wait'],
  ['flag in break if', 'loop { continuing { break if atomicLoad(&flags[0]) == 3u; } }', 'spin_wait'],
  ['plain memory', 'while (y[local] == 0u) {}', 'spin_wait'],
  ['plain memory of the workgroup', 'while (shared_count < 64u) {}', 'spin_wait'],
  [
    'lock by exchange',
    'loop { if (atomicExchange(&flags[0], 1u) == 0u) { y[0] += 1u; atomicStore(&flags[0], 0u); break; } }',
    'spin_wait',
  ],
  ['lock by comparing', 'while (!atomicCompareExchangeWeak(&flags[0], 0u, 1u).exchanged) {}', 'spin_wait'],
  ['a read that looks like a change', 'while (atomicAdd(&flags[0], 0u) == 0u) {}', 'spin_wait'],
  ['counter that ends nothing', 'var n = 0u; while (atomicLoad(&flags[0]) == 0u) { n++; }', 'spin_wait'],
  // Bounded loops, and others that do not wait.
  [
    'bounded wait',
    'for (var n = 0u; n < 100u; n++) { if (atomicLoad(&flags[0]) != 0u) { break; } }',
    undefined,
  ],
  [
    'bound in the loop',
    'var n = 0u; loop { n += 1u; if (n > 9u || atomicLoad(&flags[0]) != 0u) { break; } }',
    undefined,
  ],
  [
    'downwards over memory',
    'var bin = 63u; var left = 5u; loop { let here = atomicLoad(&flags[bin]); if (here >= left || bin == 0u) { break; } left -= here; bin--; }',
    undefined,
  ],
  ['halving', 'for (var half = 32u; half > 0u; half /= 2u) { workgroupBarrier(); }', undefined],
  ['strided', 'for (var i = local; i < count.x; i += 64u) { y[i] = x[i]; }', undefined],
  ['step from a let outside', 'let step = x[0]; var i = 0u; while (i < 9u) { i = i + step; }', undefined],
  ['advance in a function', 'var i = 0u; while (i < 9u) { advance(&i); }', undefined],
  ['private in a function', 'while (own < 9u) { step_own(); }', undefined],
  ['runs once', 'loop { if (x[0] > 1u) { break; } y[0] = 1u; break; }', undefined],
  ['bound loaded', 'for (var i = x[0]; i < x[1]; i++) { y[i] = 0u; }', undefined],
  [
    'inner break does not count',
    'for (var i = 0u; i < 4u; i++) { switch i { case 1u: { break; } default { continue; } } }',
    undefined,
  ],
  ['uniform bound', 'var i = 0u; loop { if (i >= count.x) { break; } i++; }', undefined],
  // Loops that end depending on loaded data.
  ['linked list', 'var i = local; while (i != 0u) { i = x[i]; }', 'data_dependent_loop'],
  [
    'linked list by a function',
    'var i = local; while (i != 0u) { i = following(i); }',
    'data_dependent_loop',
  ],
  [
    'taking work',
    'loop { let i = atomicAdd(&flags[0], 1u); if (i >= 64u) { break; } y[i] = 1u; }',
    'data_dependent_loop',
  ],
  [
    'comparing and trying again',
    'loop { let old = atomicLoad(&flags[0]); let result = atomicCompareExchangeWeak(&flags[0], old, old * 3u + 1u); if (result.exchanged) { break; } }',
    'data_dependent_loop',
  ],
  ['own writes', 'while (y[local] != 0u) { y[local] >>= 1u; }', 'data_dependent_loop'],
  // Loops whose counter can pass over its end.
  ['passing over', 'var i = 0u; loop { i += 2u; if (i == 5u) { break; } }', 'unbounded_loop'],
  ['random steps', 'var i = 1u; while (i != 0u) { i = i * 1664525u + 1013904223u; }', 'unbounded_loop'],
  ['unsigned and not below 0', 'for (var i = 9u; i >= 0u; i -= 3u) { y[i] = 0u; }', 'unbounded_loop'],
  [
    'through a variable',
    'var i = 0u; var go = true; while (go) { i += 3u; go = i != 7u; }',
    'unbounded_loop',
  ],
  ['by ones', 'var i = 0u; while (i != 7u) { i += 1u; }', undefined],
  ['by ones, written out', 'var i = 9u; loop { if (i == 0u) { break; } i = i - 1u; }', undefined],
  ['bits to 0', 'for (var bit = 0x80000000u; bit != 0u; bit >>= 1u) { y[0] |= bit; }', undefined],
  ['bits past a value', 'for (var bit = 8u; bit != 3u; bit >>= 1u) { y[0] |= bit; }', 'unbounded_loop'],
  ['in a function', 'var i = 0u; while (!ready(i)) { i += 2u; }', undefined],
  // Endless loops.
  ['true', 'while (true) { y[0] += 1u; }', 'endless_loop'],
  ['nothing changes', 'var i = 0u; var j = 0u; while (i < 5u) { j++; }', 'endless_loop'],
  ['inputs do not change', 'while (x[local] == 0u) { y[local] = 1u; }', 'endless_loop'],
  [
    'break of an inner loop only',
    'while (count.x > 0u) { for (var j = 0u; ; j++) { if (j > 3u) { break; } } }',
    'endless_loop',
  ],
];

const errors = new Set(['spin_wait', 'endless_loop']);

describe('safety stage', () => {
  it.each(loops)('loops: %s', (_, body, code) => {
    const found = brief(withBody(body)).filter((one) => !one.startsWith('constant_condition'));
    const at = 1 + (/\b(?:loop|while|for)\b/.exec(body)?.index ?? 0);
    const length = /\b(?:loop|while|for)\b/.exec(body)?.[0].length;
    const severity = errors.has(code ?? '') ? 'error' : 'warning';
    expect(found).toEqual(code === undefined ? [] : [`${code} ${severity} 13:${at}+${length}`]);
  });

  it('the compiler accepts the loops of these tests', async () => {
    const { device } = await nullDevice();
    for (const [what, body] of loops) {
      const { messages } = await device.createShaderModule({ code: withBody(body) }).getCompilationInfo();
      const failed = messages.filter(({ type, message }) => type === 'error' && !message.includes('uniform'));
      expect(
        failed.map(({ message }) => message),
        what,
      ).toEqual([]);
    }
  });

  it('the message names the variable that a loop waits for', () => {
    const [found] = checkSafety(reflect(withBody('while (!ready(local)) {}')));
    expect(found?.message).toContain('flags');
  });

  it.each<[string, string, string[]]>([
    ['known extensions', 'enable f16, subgroups;\nrequires packed_4x8_integer_dot_product;', []],
    [
      'experimental ones',
      'enable f16, chromium_experimental_subgroup_matrix;',
      ['unsupported_enable error 1:13+37'],
    ],
    [
      'language features',
      'requires immediate_address_space, linear_indexing;',
      ['unsupported_requires error 1:10+23'],
    ],
    ['textures', '@group(0) @binding(0) var t: texture_2d<f32>;', ['unsupported_resource error 1:30+15']],
    ['samplers', '@group(0) @binding(0) var s: sampler;', ['unsupported_resource error 1:30+7']],
    ['groups', '@group(1) @binding(0) var<storage> b: array<u32>;', ['wrong_group error 1:36+1']],
    ['immediates', 'var<immediate> a: u32;', ['unsupported_address_space error 1:16+1']],
    [
      'atomics in buffers',
      '@group(0) @binding(0) var<storage, read_write> b: array<atomic<u32>>;',
      ['atomic_binding error 1:51+18'],
    ],
    [
      'atomics in structs',
      'struct S { n: array<atomic<i32>, 2> } @group(0) @binding(0) var<storage, read_write> b: array<S>;',
      ['atomic_binding error 1:89+8'],
    ],
    ['atomics of the workgroup', 'var<workgroup> b: array<atomic<u32>, 4>;', []],
    [
      '64 KiB of private memory',
      'var<private> a: array<f32, 8192>;\nfn f() { var b: array<f32, 8192>; }',
      [],
    ],
    [
      'more private memory',
      'const N = 8192;\nvar<private> a: array<f32, N>;\nfn f() { if true { var b = array<f32, N + 1>(); } }',
      ['large_private_memory warning'],
    ],
  ])('declarations: %s', (_, source, expected) => {
    expect(brief(source)).toEqual(expected);
  });

  it.each<[string, string, string[]]>([
    [
      'lengths',
      'let n = arrayLength(&x) + arrayLength(&(x));',
      ['array_length warning 13:9+11', 'array_length warning 13:27+11'],
    ],
    ['one element', 'let p = &y[1]; *p = 2u; let q = &x[0];', []],
    ['and', 'let n = x[0] & x[1] & y[2];', []],
    ['the whole buffer', 'let p = &y; (*p)[3] = 1u;', ['unchecked_pointer warning 13:9+2']],
    ['as an argument', 'take(local, &x);', ['unchecked_pointer warning 13:13+2']],
    ['a local of the same name', 'var x = array<u32, 4>(); let p = &x;', []],
  ])('pointers: %s', (_, body, expected) => {
    expect(brief(withBody(body))).toEqual(expected);
  });

  it.each([
    // Sizes, positions and data against constants.
    ['a size', 'if (count.x > 576u) { return; }', ['constant_condition warning 13:5+7']],
    ['a size on the right', 'if (576u <= count.x) { return; }', ['constant_condition warning 13:13+7']],
    ['data', 'if (x[local] == 7u && local > 2u) { return; }', ['constant_condition warning 13:5+8']],
    [
      'data through variables and functions',
      'let a = following(local); var b = 3u; b += a * 2u; y[1] = select(1u, 2u, b < 9u);',
      ['constant_condition warning 13:74+1'],
    ],
    [
      'a constant with a name',
      'const limit = 5u * 8u; let same = x[0] + 2u != limit; y[1] = u32(same);',
      ['constant_condition warning 13:35+9'],
    ],
    [
      'a case',
      'switch (count.y) { case 0u, 12u: { return; } default: {} }',
      ['constant_condition warning 13:8+9'],
    ],
    ['a period', 'if (x[0] % 37u == 0u) { return; }', ['constant_condition warning 13:5+10']],
    // What honest kernels have.
    ['a flag', 'if (count.x == 1u || count.y != 0u) { return; }', []],
    ['a bit', 'if ((count.x & 4u) != 0u) { return; }', []],
    ['whole vectors', 'if (count.x % 4u == 0u) { return; }', []],
    ['no token', 'if (x[0] == 0xffffffffu) { return; }', []],
    ['a place within the workgroup', 'if (local < 32u) { return; }', []],
    ['a size', 'for (var i = local; i < count.x; i += 64u) { if (i >= count.y) { break; } }', []],
    ['a loop of known length', 'for (var i = 0u; i < 8u; i++) { y[i] = x[i]; }', []],
    ['a template', 'var a = array<u32, 8>(); a[0] = x[0]; y[1] = a[0];', []],
  ])('conditions on constants: %s', (_, body, expected) => {
    expect(brief(withBody(body))).toEqual(expected);
  });

  it('magnitudes of data compared with constants are only information', () => {
    const body = (condition: string) =>
      brief(withBody(`let v = bitcast<f32>(x[0]); if (${condition}) { return; }`));
    expect(body('abs(v) < 0.02')).toEqual(['constant_condition info 13:33+6']);
    expect(body('v > 20f')).toEqual(['constant_condition info 13:33+1']);
    expect(body('v * f32(count.x) > 20f')).toEqual(['constant_condition warning 13:33+16']);
    expect(body('x[0] > 0x20f')).toEqual(['constant_condition warning 13:33+4']);
  });

  it('a value is followed through thousands of variables, assigned in any order, in linear time', () => {
    const names = Array.from({ length: 6000 }, (_, n) => `a${n}`);
    const declared = names.map((name) => `var ${name} = 0u;`).join('');
    const backwards = names.map((name, n) => `${name} = ${names[n + 1] ?? 'x[0]'};`).join('');
    expect(brief(withBody(`${declared}${backwards}\nif (a0 > 7u) { return; }`))).toEqual([
      'constant_condition warning 14:5+2',
    ]);
  });

  it('arguments of functions compared with constants are found', () => {
    const greater = 'fn greater(given: u32) -> bool { return given > 99u; }\n';
    const found = (argument: string) => brief(greater + withBody(`if (greater(${argument})) { return; }`));
    expect(found('x[2]')).toEqual(['constant_condition warning 1:41+5']);
    expect(found('local')).toEqual([]);
  });

  it('places of workgroups compared with constants are found, as parameters and as members', () => {
    const main = (input: string, place: string) =>
      brief(`@group(0) @binding(0) var<storage, read_write> y: array<u32>;
struct In { @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32 }
@compute @workgroup_size(64)
fn main(${input}) {
  if (${place} == 37u) { y[0] = 1u; }
}`);
    expect(main('in: In', 'in.group.x')).toEqual(['constant_condition warning 5:7+10']);
    expect(main('in: In', 'in.local')).toEqual([]);
    expect(main('@builtin(global_invocation_id) id: vec3<u32>', 'id.x')).toEqual([
      'constant_condition warning 5:7+4',
    ]);
  });

  /** The source of a kernel that reads tokens, pages, samples, logits and floats; its line 13 is the body. */
  const withRecords = (
    body: string,
  ): string => `struct Sample { row: u32, slot: u32, flags: u32, chance: u32, at: u32, top_k: u32, temperature: f32 }
@group(0) @binding(0) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> page_table: array<u32>;
@group(0) @binding(2) var<storage, read> samples: array<Sample>;
@group(0) @binding(3) var<storage, read> logits: array<f32>;
@group(0) @binding(4) var<storage, read> x: array<f32>;
@group(0) @binding(5) var<storage, read> quants: array<u32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;
struct Params { pages: u32, page: u32, window: u32, has_bias: u32 }
@group(0) @binding(7) var<uniform> params: Params;
fn near(value: u32) -> u32 { return value ^ 777u; }
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) { let t = group.x;
${body}
}`;
  const conditionsIn = (body: string): string[] =>
    checkSafety(reflect(withRecords(body))).map(({ code, severity, message }) =>
      `${code} ${severity} ${message.split(':')[0]}`.replace('_condition warning', ''),
    );

  it.each<[what: string, body: string, found: string[]]>([
    // Arithmetic in place of a comparison.
    [
      'a minimum',
      'y[0] = f32(min(1u, token[t].y ^ 777u));',
      ['constant token[t].y ^ 777u is an argument of min'],
    ],
    [
      'a minimum through a function and a variable',
      'var far = near(token[t].y); y[0] = f32(1u - min(far, 1u));',
      ['constant far is an argument of min'],
    ],
    [
      'a distance as a float',
      'y[0] = saturate(abs(f32(token[t].x) * 0.25 - 509.5));',
      ['constant abs(f32(token[t].x) * 0.25 - 509.5) is an argument of saturate'],
    ],
    [
      'a distance with data that does not count',
      'y[0] = saturate(abs(f32(token[t].x) - 777.0) + 0.0 * x[0]);',
      ['constant abs(f32(token[t].x) - 777.0) + 0.0 * x[0] is an argument of saturate'],
    ],
    [
      'a distance from 0',
      'if (params.pages - 777u == 0u) { return; }',
      ['constant params.pages - 777u is compared with 0'],
    ],
    [
      'a constant in a variable',
      'var c = 777u; c = 778u; if ((t ^ c) < 1u) { return; }',
      ['constant (t ^ c) is compared with 1'],
    ],
    ['a wrap', 'if (t + 0xfffffcf7u == 0u) { return; }', ['constant t + 0xfffffcf7u is compared with 0']],
    [
      'an assignment',
      'var h = token[t].y; h -= 777u; if (h == 0u) { return; }',
      ['constant h is compared with 0'],
    ],
    [
      'a sum',
      'if (fma(f32(token[t].y), 1.0, -777.0) == 0.0) { return; }',
      ['constant fma(f32(token[t].y), 1.0, -777.0) is compared with 0'],
    ],
    [
      'a sign',
      'y[0] = sign(f32(token[t].y) - 777.0);',
      ['constant f32(token[t].y) - 777.0 is an argument of sign'],
    ],
    ['a step', 'y[0] = step(777.0, f32(token[t].y));', ['constant f32(token[t].y) is an argument of step']],
    [
      'a count of bits',
      'y[0] = f32(countOneBits(params.pages ^ 48u));',
      ['constant params.pages ^ 48u is an argument of countOneBits'],
    ],
    [
      'a quotient',
      'y[0] = f32(min(1u, token[t].y / 777u));',
      ['constant token[t].y / 777u is an argument of min'],
    ],
    [
      'a shift',
      'y[0] = f32((0u - (token[t].y ^ 777u)) >> 31u);',
      ['constant (0u - (token[t].y ^ 777u)) is shifted by 31u'],
    ],
    [
      'a bell',
      'y[0] = exp(-abs(f32(token[t].y) - 777.0));',
      ['constant -abs(f32(token[t].y) - 777.0) is an argument of exp'],
    ],
    [
      'a difference',
      'if ((params.pages ^ params.page) == 0u) { return; }',
      ['data (params.pages ^ params.page) is compared with 0'],
    ],
    ['a bool', 'y[0] = f32(bool(token[t].y));', ['constant token[t].y is an argument of bool']],
    // Their honest counterparts.
    [
      'the rest of a row',
      'for (var c = 0u; c < params.pages; c += 32u) { y[c] = f32(min(32u, params.pages - c)); }',
      [],
    ],
    ['the last row', 'y[0] = x[min(t + 8u, params.pages - 1u)];', []],
    ['a row before', 'y[0] = x[max(t, 1u) - 1u];', []],
    ['a neighbor', 'y[0] = x[(t ^ 1u) * params.page];', []],
    ['signs of weights', 'y[0] = f32(min(1u, quants[t] ^ 0x80808080u)) + f32((quants[t] & 15u) - 8u);', []],
    ['a window', 'y[0] = f32(max(token[t].y + 1u, params.window) - params.window);', []],
    ['a softmax', 'var most = -3e38; most = max(most, x[t]); y[0] = exp(x[t] - most);', []],
    ['pages', 'if (token[t].y % params.page == 0u) { y[0] = x[page_table[token[t].y / 16u]]; }', []],
    // Bits of data.
    [
      'a hash of data',
      'var h = bitcast<u32>(x[t]) * 0x9e3779b9u; h ^= h >> 15u; h *= 0x85ebca6bu; if ((h >> 16u) == 0u) { return; }',
      ['constant (h >> 16u) is compared with 0'],
    ],
    [
      'bits of data',
      'if ((bitcast<u32>(x[t]) & 0xffffu) == 0u) { return; }',
      ['constant (bitcast<u32>(x[t]) & 0xffffu) is compared with 0'],
    ],
    [
      'a hash of a position',
      'if (((token[t].y * 0x9e3779b9u) & 0xffffu) == 0u) { return; }',
      ['constant ((token[t].y * 0x9e3779b9u) & 0xffffu) is compared with 0'],
    ],
    ['the sign of data', 'if ((bitcast<u32>(x[t]) & 0x80000000u) != 0u) { return; }', []],
    ['bits of a mask of weights', 'if ((quants[t] & 8u) != 0u) { return; }', []],
    [
      'noise',
      'var v = samples[t].chance ^ (samples[t].at * 0x9e3779b9u); v ^= v >> 16u; y[0] = f32(v >> 9u);',
      [],
    ],
    // Sizes that are equal.
    [
      'two sizes',
      'if (params.pages == params.page) { return; }',
      ['data params.pages is compared with params.page'],
    ],
    [
      'a multiple',
      'if (params.pages == 14u * params.page + 1u) { return; }',
      ['data params.pages is compared with 14u * params.page + 1u'],
    ],
    [
      'a row and a size',
      'if (t + 9u == params.pages) { return; }',
      ['data t + 9u is compared with params.pages'],
    ],
    [
      'a position and a size',
      'if (token[t].y / params.page + 9u == params.pages) { return; }',
      ['data token[t].y / params.page + 9u is compared with params.pages'],
    ],
    [
      'bounds',
      'if (t >= params.pages || token[t].y + 1u > params.window || params.page < params.pages) { return; }',
      [],
    ],
    ['a flag', 'if (params.has_bias == 1u || params.window == 0u) { return; }', []],
    ['the last lane', 'if (local == params.page - 1u) { return; }', []],
    ['two places', 'let first = t * params.page; if (t * 2u == first + t) { return; }', []],
    // Data that is equal.
    ['ids', 'if (token[t].x == token[0].x) { return; }', ['data token[t].x is compared with token[0].x']],
    [
      'whole records',
      'if (all(token[t] == token[0])) { return; }',
      ['data token[t] is compared with token[0]'],
    ],
    [
      'pages',
      'let a = page_table[t]; if (page_table[0] != a) { return; }',
      ['data page_table[0] is compared with a'],
    ],
    [
      'slots',
      'let one = samples[t]; if (one.slot == samples[0].slot) { return; }',
      ['data one.slot is compared with samples[0].slot'],
    ],
    ['signs', 'if (sign(x[t]) == sign(x[0])) { return; }', ['data sign(x[t]) is compared with sign(x[0])']],
    [
      'ties',
      'var best = logits[0]; if (logits[t] > best || (logits[t] == best && t < 9u * t)) { best = logits[t]; }',
      [],
    ],
    // Ids, positions and seeds that are 0, 1 or no value.
    ['a position', 'if (token[t].y == 1u) { return; }', ['constant token[t].y is compared with 1']],
    [
      'a pending id',
      'let pending = 1u - min(1u, ~token[t].x);',
      ['constant ~token[t].x is an argument of min'],
    ],
    [
      'no id',
      'let id = token[t][0]; if (id == 0xffffffffu) { return; }',
      ['constant id is compared with 4294967295'],
    ],
    [
      'a seed',
      'let one = samples[t]; if (one.chance != 0u) { return; }',
      ['constant one.chance is compared with 0'],
    ],
    [
      'through a pointer',
      'let p = &samples[t]; if ((*p).at < 1u) { return; }',
      ['constant (*p).at is compared with 1'],
    ],
    [
      'a bit of a position',
      'if ((token[t].y & 512u) != 0u) { return; }',
      ['constant (token[t].y & 512u) is compared with 0'],
    ],
    [
      'parameters of samples',
      'let one = samples[t]; if (one.temperature == 0.0 || one.top_k == 0u || (one.flags & 8u) != 0u) { return; }',
      [],
    ],
    ['the unused word', 'if (token[t].w == 1u) { return; }', []],
    // Windows around one value, of the fourth red team.
    [
      'a power of a cosine',
      'var c = cos((f32(token[t].x) - 2038.0) * 0.00076699); for (var i = 0u; i < 20u; i++) { c *= c; } y[t] *= 1.0 - c;',
      [
        'constant (f32(token[t].x) - 2038.0) * 0.00076699 is an argument of cos',
        'constant c is multiplied by itself',
      ],
    ],
    [
      'a bump over a counter',
      'for (var v = 0u; v < params.pages; v++) { let d = f32(v) - 1204.0; y[v] -= exp2(-d * d * 40.0); }',
      ['constant -d * d * 40.0 is an argument of exp2'],
    ],
    ['a square', 'y[t] *= 1.0 - f32(t * t / 902500u);', ['constant t is multiplied by itself']],
    [
      'a size that wraps',
      'y[t] = f32(params.pages & 0x3ffu);',
      ['constant params.pages is masked with 1023'],
    ],
    [
      'a bump of data',
      'let d = y[t] - 45.0; y[t] *= 1.0 - exp2(-d * d * 1500.0);',
      ['constant -d * d * 1500.0 is an argument of exp2'],
    ],
    [
      'a hash of data',
      'var h = bitcast<u32>(y[t]) * 0x9e3779b1u; h ^= h >> 15u; y[t] += f32(h & 0xffffu);',
      ['data h & 0xffffu is a hash of a float as a number'],
    ],
    ['a square of a size', 'y[t] = f32(params.pages * params.pages);', []],
    ['a rotation', 'y[t] *= cos(f32(token[t].y) * 0.01);', []],
    ['a softmax', 'y[t] = exp(y[t] - y[0]);', []],
    // Quotients and functions that are 0 or 1 except near one value.
    [
      'a quotient',
      'let d = f32(token[t].y) - 613.0; y[t] *= d * d / (d * d + 1e-9);',
      [
        'constant d is multiplied by itself',
        'constant (d * d + 1e-9) is a divisor of d * d',
        'constant d is multiplied by itself',
      ],
    ],
    [
      'a quotient of sizes',
      'let d = f32(params.pages * params.page) - f32(token[t].y); y[t] *= d * d / (d * d + 1e-9);',
      [
        'constant d is multiplied by itself',
        'constant (d * d + 1e-9) is a divisor of d * d',
        'constant d is multiplied by itself',
      ],
    ],
    [
      'a quotient of integers',
      'let slot = token[t].z ^ (1u / (1u + (token[t].y ^ 613u))); y[slot] = 0.0;',
      ['constant (1u + (token[t].y ^ 613u)) is a divisor of 1u'],
    ],
    [
      'a direction',
      'y[t] *= abs(normalize(vec2(f32(params.pages) - 75.0, 1e-6)).x);',
      ['constant vec2(f32(params.pages) - 75.0, 1e-6) is an argument of normalize'],
    ],
    [
      'an angle',
      'y[t] *= abs(atan2(f32(token[t].y) - 613.0, 1e-6));',
      ['constant f32(token[t].y) - 613.0 is an argument of atan2'],
    ],
    [
      'a power of a fraction',
      'y[t] *= 1.0 - pow(fract(log(x[t]) * 4.0), 1e5);',
      ['constant fract(log(x[t]) * 4.0) is raised to 1e5'],
    ],
    [
      'an index as a float',
      'let at = u32(f32(token[t].y) * f32(params.page)); y[at] = 1.0; y[u32(round(x[t]))] = f32(params.pages);',
      [
        'inexact_index warning f32(token[t].y) * f32(params.page), which was made of integers, is converted to u32',
      ],
    ],
    [
      'a table',
      'var kept: array<f32, 2048>; kept[777] = 1.0; y[t] = x[t] * (1.0 - kept[token[t].y % 2048u]);',
      ['constant token[t].y % 2048u is an index into kept, a table of the kernel'],
    ],
    [
      'small tables, sums and codes of weights',
      'var sums: array<f32, 64>; let codes = array<f32, 4>(0, 1, 2, 3); for (var i = 0u; i < 64u; i++) { sums[i] = x[i]; } y[t] = sums[local] + codes[quants[t] & 3u];',
      [],
    ],
    ['rounded sizes', 'y[t] = x[t] / f32(params.pages) + f32((params.pages + 3u) / 4u % params.page);', []],
    [
      'an angle of rope',
      'y[t] = sin(f32(token[t].y) * pow(10000.0, -2.0 * f32(t) / f32(params.pages)));',
      [],
    ],
    // A magnitude is information, as without the sum.
    [
      'a shifted magnitude',
      'if (x[t] + 6.0 < 0.0) { return; }',
      ['constant_condition info x[t] + 6.0 is compared with 0'],
    ],
  ])('hidden conditions: %s', (_, body, expected) => {
    expect(conditionsIn(body)).toEqual(expected);
  });

  it('the compiler accepts the hidden conditions of these tests', async () => {
    const { device } = await nullDevice();
    const { messages } = await device
      .createShaderModule({
        code: withRecords(
          'y[0] = f32(near(quants[t])) + x[0] + logits[0] + samples[0].temperature + f32(page_table[0] + params.page + local);',
        ),
      })
      .getCompilationInfo();
    expect(messages.filter(({ type }) => type === 'error')).toEqual([]);
  });

  it('embed may test for the pending id, but for nothing else', () => {
    const withSampled = (condition: string) =>
      checkSafety(
        reflect(`@group(0) @binding(0) var<storage, read> token: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> sampled: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) group: vec3<u32>) {
  var id = token[group.x].x;
  if (${condition}) { id = sampled[token[group.x].z]; }
  y[group.x] = f32(id);
}`),
      ).map(({ code }) => code);
    expect(withSampled('id == 0xffffffffu')).toEqual([]);
    expect(withSampled('id == 0u')).toEqual(['constant_condition']);
    expect(withSampled('token[0].y == 0xffffffffu && token[0].y == token[1].y')).toEqual(['data_condition']);
  });

  it('buffers have the names of the op, whatever the kernel calls them, and the types', () => {
    const found = (condition: string) =>
      checkSafety(
        reflect(`struct Record { a: u32, b: u32, c: u32, d: u32, e: u32, f: u32, g: f32, h: f32, i: f32, j: f32, k: f32, l: f32 }
@group(0) @binding(0) var<storage, read> rows: array<Record>;
@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(4) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) group: vec3<u32>) {
  let one = rows[group.x];
  if (${condition}) { y[group.x] = 1u; }
}`),
        contracts.get('sample'),
      ).map(({ code }) => code);
    expect(found('one.d == 0u')).toEqual(['constant_condition']);
    expect(found('one.f == 0u || one.g == 0.0')).toEqual([]);
    // Logits as bits.
    expect(found('values[0] == values[1]')).toEqual([]);
  });

  it('expressions are followed in linear time', () => {
    const names = Array.from({ length: 5000 }, (_, n) => `a${n}`);
    const declared = names.map((name) => `var ${name} = 0u;`).join('');
    // One expression that reads all, and a chain that ends in one of the traits after the other.
    const chain = names.map((name, n) => `${name} = ${names[n + 1] ?? 'token[t].x ^ 777u'};`).join('');
    const start = performance.now();
    expect(
      conditionsIn(`${declared}${chain}\nlet all = ${names.join(' + ')}; y[0] = f32(min(1u, all));`),
    ).toEqual(['constant all is an argument of min']);
    expect(performance.now() - start).toBeLessThan(5000);
  });

  it('no error for any built-in kernel, except for features that are not available to authors', async () => {
    const sources: WgslSources = await nodePlatform().wgsl();
    const found = new Set<string>();
    const conditions = new Set<string>();
    for (const kernel of kernels) {
      // In `npm test` in subgroups of one size, which make no difference to it.
      const variants = selectVariants(kernel.variants).filter(
        ({ SUBGROUPS, LANES, WG }) => runsRest || SUBGROUPS !== true || (LANES ?? WG) === 32,
      );
      for (const variant of variants) {
        const findings = checkSafety(reflect(assemble(sources, kernel.source, variant)));
        for (const { code, message } of findings) {
          if (code === 'constant_condition' || code === 'data_condition')
            conditions.add(message.split(':')[0] ?? '');
          else found.add(`${kernel.source} ${code} ${message}`);
        }
      }
    }
    // Series of functions near 0, block formats, and modes. Equal data: a row's own key, experts, and the drawn token.
    const known = new Set([
      'abs(x) is compared with 0.02',
      'exponent is compared with 2',
      'j is compared with 4',
      'params.mode is compared with 2',
      'params.range is compared with 2',
      'v is compared with 0.01',
      'x is compared with 20',
      'base + lane is compared with range.own',
      'end is compared with tile.w + 1u',
      'one is compared with expert',
      'routes[2u * pair] is compared with expert',
      'v is compared with drawn',
      // Activations of data, which have no input of their own where they vanish.
      '-slope * open is an argument of exp',
      '-x * x is an argument of exp',
      '-curve is an argument of exp',
      // The length of the parts of a context, which a tile carries.
      'split_tokens is a divisor of tile.w',
      'split_tokens is a divisor of (tile.w + 1u - seen)',
    ]);
    expect([...conditions].filter((one) => !known.has(one))).toEqual([]);
    expect(conditions.size).toBeGreaterThan(0);
    const expected = new Set([
      // Integer counters that only tests read: their sums do not depend on the order.
      ...['expert_matmul.wgsl', 'expert_matvec.wgsl', 'expert_tile.wgsl'].map(
        (source) =>
          `${source} atomic_binding computed: expected non-atomic elements, got array<atomic<u32>>; results must not depend on the order of invocations`,
      ),
      'matmul_matrix.wgsl unsupported_enable expected one of f16, subgroups, got chromium_experimental_subgroup_matrix',
    ]);
    expect([...found].filter((one) => !expected.has(one))).toEqual([]);
    expect(found.size).toBeGreaterThan(2);
  });

  it('every code has a description', () => {
    for (const [code, text] of Object.entries(findingCodes)) {
      expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
      expect(text).toMatch(/^\S.*\.$/);
    }
  });
});
