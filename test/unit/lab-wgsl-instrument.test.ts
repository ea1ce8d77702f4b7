import { beforeAll, describe, expect, it } from 'vitest';
import { assemble, type Variant, type WgslSources } from '../../kernels/assemble.ts';
import { kernels } from '../support/all-kernels.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { contracts, type Contract } from '../../kernels/contracts.ts';
import { findConditionSites } from '../../src/lab/gate/condition-sites.ts';
import { elementCountAt, instrument } from '../../src/lab/wgsl/instrument.ts';
import { reflect } from '../../src/lab/wgsl/reflect.ts';
import { nullDevice } from '../support/null-gpu.ts';

let sources: WgslSources;
let device: GPUDevice;
beforeAll(async () => {
  sources = await nodePlatform().wgsl();
  ({ device } = await nullDevice(['shader-f16', 'subgroups', 'chromium-experimental-subgroup-matrix']));
});

const checked = (source: string) => instrument(source, reflect(source));
/** Conditions are recorded, too. */
const recorded = (source: string) => {
  const reflection = reflect(source);
  const contract = contracts.get('add') as Contract;
  const { sites, findings } = findConditionSites(reflection, { contract, entryPoint: 'main', overrides: {} });
  return { ...instrument(source, reflection, sites), findings };
};

const errorsOf = async (code: string): Promise<string[]> => {
  device.pushErrorScope('validation');
  const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
  await device.popErrorScope();
  return messages
    .filter(({ type }) => type === 'error')
    .map(({ lineNum, linePos, message }) => `${lineNum}:${linePos} ${message}`);
};

const head = `alias Row = array<vec4<f32>, N>; const N = 3;
struct Item { id: u32, weights: array<f32, 4>, turn: mat3x2<f32>, }
struct Tail { first: vec4<u32>, second: array<u32, 8>, rest: array<vec2<f32>>, }
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read> rows: array<Row>;
@group(0) @binding(2) var<storage, read_write> items: array<Item>;
@group(0) @binding(3) var<storage, read_write> tail: Tail;
var<private> own: array<u32, 8>;
fn same(i: u32) -> u32 { return i; }
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) at: vec3u) {
  let i = at.x; let s = i32(i) - 4; var n = 0u;
`;
const headLines = head.split('\n').length;

/** The instrumented body, with `lathe_index(N, u32(...), L)` abbreviated as `{N:...|L}`. */
function body(text: string): string {
  const { source } = checked(`${head}${text}\n}\n`);
  const line = source.split('\n')[headLines - 1] ?? '';
  return line
    .replace(/lathe_index\((\d+)u, u32\(/g, '{$1:')
    .replace(/\), (arrayLength\(&[\w.]+\)|\d+u)\)/g, '|$1}')
    .replace(/arrayLength\(&([\w.]+)\)/g, '$1');
}

const bodies: readonly (readonly [what: string, text: string, expected: string])[] = [
  ['read', 'n = x[i];', 'n = x[{0:i|x}];'],
  ['write', 'x[i] = 1;', 'x[{0:i|x}] = 1;'],
  ['nested', 'x[x[i]] = x[x[x[1]]];', 'x[{0:x[{1:i|x}]|x}] = x[{2:x[{3:x[{4:1|x}]|x}]|x}];'],
  [
    'compound',
    'x[i] += x[i + 1u]; x[i]++; x[(i)]--;',
    'x[{0:i|x}] += x[{1:i + 1u|x}]; x[{2:i|x}]++; x[{3:(i)|x}]--;',
  ],
  [
    'signed and abstract',
    'n = x[s] + x[s - 1] + x[1 + 1];',
    'n = x[{0:s|x}] + x[{1:s - 1|x}] + x[{2:1 + 1|x}];',
  ],
  [
    'calls and commas',
    'n = x[min(i, 3u)] + same(x[same(i)]);',
    'n = x[{0:min(i, 3u)|x}] + same(x[{1:same(i)|x}]);',
  ],
  ['elements of elements', 'let f = rows[i][n][i];', 'let f = rows[{0:i|rows}][{1:n|3u}][{2:i|4u}];'],
  [
    'constants the compiler checks',
    'let f = rows[i][2].x + rows[0][1][3];',
    'let f = rows[{0:i|rows}][2].x + rows[{1:0|rows}][1][3];',
  ],
  [
    'members',
    'items[i].weights[n] = items[i].turn[n].y;',
    'items[{0:i|items}].weights[{1:n|4u}] = items[{2:i|items}].turn[{3:n|3u}].y;',
  ],
  ['swizzles', 'let f = rows[i][n].xy[i];', 'let f = rows[{0:i|rows}][{1:n|3u}].xy[{2:i|2u}];'],
  [
    'tail',
    'tail.rest[i] = tail.rest[n].yx; tail.second[n] = tail.first[n];',
    'tail.rest[{0:i|tail.rest}] = tail.rest[{1:n|tail.rest}].yx; tail.second[{2:n|8u}] = tail.first[{3:n|4u}];',
  ],
  [
    'brackets',
    'n = (x)[i]; n = u32(((tail.rest))[i].x); (x)[n] = 1;',
    'n = (x)[{0:i|x}]; n = u32(((tail.rest))[{1:i|tail.rest}].x); (x)[{2:n|x}] = 1;',
  ],
  [
    'pointers to elements',
    'let p = &x[i]; *p = 1; n = same(*&x[n]);',
    'let p = &x[{0:i|x}]; *p = 1; n = same(*&x[{1:n|x}]);',
  ],
  [
    'shadowed',
    '{ var x = array<u32, 4>(); x[i & 3] = 1; } x[i] = 1;',
    '{ var x = array<u32, 4>(); x[i & 3] = 1; } x[{0:i|x}] = 1;',
  ],
  ['shadowed by what it begins with', 'let x = x[i];', 'let x = x[{0:i|x}];'],
  [
    'shadowed by a loop',
    'for (var x = x[i]; x < 3; x++) { own[x] = 1; } n = x[1];',
    'for (var x = x[{0:i|x}]; x < 3; x++) { own[x] = 1; } n = x[{1:1|x}];',
  ],
  [
    'headers',
    'for (var k = x[0]; k < x[1]; x[2]++) { k += x[k]; }',
    'for (var k = x[{0:0|x}]; k < x[{1:1|x}]; x[{2:2|x}]++) { k += x[{3:k|x}]; }',
  ],
  [
    'conditions',
    'if x[i] < 1u && x[n] > (x[1]) { } else if (x[2] == 0) { }',
    'if x[{0:i|x}] < 1u && x[{1:n|x}] > (x[{2:1|x}]) { } else if (x[{3:2|x}] == 0) { }',
  ],
  [
    'loops',
    'loop { x[0]++; continuing { x[1]++; break if x[2] > 3; } }',
    'loop { x[{0:0|x}]++; continuing { x[{1:1|x}]++; break if x[{2:2|x}] > 3; } }',
  ],
  [
    'switches',
    'switch x[i] { case 1, 2: { n = x[1]; } default: { n = x[2]; } }',
    'switch x[{0:i|x}] { case 1, 2: { n = x[{1:1|x}]; } default: { n = x[{2:2|x}]; } }',
  ],
  ['comments', 'n = x[ /* x[1] */ i /* ] */ ]; // x[2]', 'n = x[{0: /* x[1] */ i /* ] */ |x}]; // x[2]'],
  ['other arrays', 'own[i] = own[n]; n = at[i];', 'own[i] = own[n]; n = at[i];'],
  ['lengths', 'n = arrayLength(&x) + arrayLength(&tail.rest);', 'n = x + tail.rest;'],
  ['returns', 'if (n > 1) { x[i] = 1; return; }', 'if (n > 1) { x[{0:i|x}] = 1; return; }'],
];

describe('instrumented source', () => {
  it.each(bodies)('%s', async (_, text, expected) => {
    expect(body(text)).toBe(expected);
    const { source, sites } = checked(`${head}${text}\n}\n`);
    expect(await errorsOf(`${head}${text}\n}\n`)).toEqual([]);
    expect(await errorsOf(source)).toEqual([]);
    expect(source.match(/lathe_index\(\d/g)?.length ?? 0).toBe(sites.length);
  });

  it.each<[what: string, text: string, expected: string]>([
    ['comparisons', 'if (x[i] > 3u) { n = 1; }', 'if (<0: x[i] > 3u>) { n = 1; }'],
    [
      'what is combined, from the outside to the inside',
      'if n > 1u && (i < 2u || x[0] == n) { }',
      'if <0: <1: n > 1u> && (<2: <3: i < 2u> || <4: x[0] == n>>)> { }',
    ],
    [
      'vectors',
      'let v = vec3(n) > vec3(i); n = select(n, 1u, any(v.xy)); if all(v) { }',
      'let v = <0 of 3: vec3(n) > vec3(i)>; n = select(n, 1u, <1: any(v.xy)>); if <2: all(v)> { }',
    ],
    [
      'loops',
      'for (var k = 0u; k < n; k++) { } while (n > i) { n--; } loop { continuing { break if n == 2u; } }',
      'for (var k = 0u; <0: k < n>; k++) { } while (<1: n > i>) { n--; } loop { continuing { break if <2: n == 2u>; } }',
    ],
    [
      'values',
      'let is_odd = (n & 1u) == 1u; if (is_odd) { }',
      'let is_odd = <0: (n & 1u) == 1u>; if (<1: is_odd>) { }',
    ],
    ['no constants', 'if (N > 2) { n = u32(N == 3); }', 'if (N > 2) { n = u32(N == 3); }'],
  ])('conditions: %s', async (_, text, expected) => {
    const { source, conditions } = recorded(`${head}${text}\n}\n`);
    const line = source.split('\n')[headLines - 1] ?? '';
    const shown = line
      .replace(/lathe_index\(\d+u, u32\((\w+)\), arrayLength\(&\w+\)\)/g, '$1')
      // Innermost first, so that each closing parenthesis belongs to the call.
      .replaceAll(/lathe_condition(\d?)\(/g, '\u0001$1(');
    const abbreviate = (whole: string): string => {
      const at = whole.lastIndexOf('\u0001');
      if (at < 0) return whole;
      const open = whole.indexOf('(', at);
      let depth = 0;
      let close = open;
      for (; close < whole.length; close++) {
        if (whole[close] === '(') depth++;
        if (whole[close] === ')' && --depth === 0) break;
      }
      const width = whole.slice(at + 1, open);
      const [number = '', ...rest] = whole.slice(open + 1, close).split('u, ');
      const first = Number(number) - (source.match(/lathe_index\(\d/g)?.length ?? 0);
      return abbreviate(
        `${whole.slice(0, at)}<${first}${width && ` of ${width}`}: ${rest.join('u, ')}>${whole.slice(close + 1)}`,
      );
    };
    expect(abbreviate(shown)).toBe(expected);
    expect(conditions.length).toBe(source.match(/lathe_condition\d?\(\d/g)?.length ?? 0);
    expect(await errorsOf(source)).toEqual([]);
  });

  it('local variables and members may have the names of functions that only the additions use', async () => {
    const {
      source,
      conditions,
      uncheckedFindings: unchecked,
    } = recorded(`struct Sums { all: u32, }
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
fn kept(any: u32) -> u32 { let ptr = any; return ptr; }
@compute @workgroup_size(64) fn main() { let all = y[1] > 2; var vec2 = Sums(1); if (all) { y[0] = kept(vec2.all); } }`);
    expect(unchecked).toEqual([]);
    expect(conditions).toHaveLength(2);
    expect(await errorsOf(source)).toEqual([]);
  });

  it('loops over sizes and data are recorded by their turns', async () => {
    const { source, conditions } = recorded(`@group(0) @binding(2) var<uniform> size: vec4<u32>;
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u) {
  for (var i = 0u; i < size.x; i++) { for (var k = 0u; k < 4u; k++) { y[i] += k; } }
  @diagnostic(off, derivative_uniformity) while (y[0] < size.y) { y[0]++; if (y[0] == 7u) { continue; } }
}`);
    expect(conditions.filter((one) => one.body !== undefined).map(({ text }) => text)).toEqual([
      'i < size.x',
      'y[0] < size.y',
    ]);
    expect(await errorsOf(source)).toEqual([]);
  });

  it('guards and places in a workgroup may have one outcome', () => {
    const { conditions } = recorded(`@group(0) @binding(2) var<uniform> size: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3u, @builtin(local_invocation_index) local: u32) {
  if (at.x >= size.x || local > 7u) { return; }
  if (at.x == size.y || at.x > 2u * size.x || y[0] > size.x) { y[1] = 2u; }
  if (at.x >= size.x * size.y || at.x > size.x + size.y) { return; }
}`);
    expect(conditions.filter(({ isOrdinary }) => isOrdinary).map(({ text }) => text)).toEqual([
      'at.x >= size.x',
      'local > 7u',
      'at.x >= size.x * size.y',
    ]);
  });

  it('sites have a location, a buffer, whether it is written, and the number of elements', () => {
    const text = 'x[x[i]] += u32(tail.rest[\n  n].x) + u32(items[i].weights[n]);';
    const { sites } = checked(`${head}${text}\n}\n`);
    const bytes = [100, 100, 100, 100, 100];
    expect(
      sites.map((site, n) => [
        `${site.binding} ${site.line - headLines}:${site.column}+${site.length} ${site.isWrite ? 'write' : 'read'}`,
        elementCountAt(site, bytes[n] ?? 0),
      ]),
    ).toEqual([
      ['x 0:1+7 write', 25],
      ['x 0:3+4 read', 25],
      ['tail 0:16+15 read', (100 - 48 - 4) / 8],
      ['items 1:15+8 read', 2],
      ['items 1:15+19 read', 4],
    ]);
    expect(sites.map(({ elements }) => elements)).toEqual([
      { offset: 0, stride: 4 },
      { offset: 0, stride: 4 },
      { offset: 48, stride: 8 },
      { offset: 0, stride: 48 },
      4,
    ]);
  });

  it('line numbers do not change, and added code is at the end', () => {
    const text = `${head}  x[i] = 1;\r\n  // é😀\n  x[n] = 2; }`;
    const { source } = checked(text);
    const lines = source.split('\n');
    text.split('\n').forEach((line, n) => {
      expect(lines[n]?.replace(/lathe_index\(\d+u, u32\((\w)\), arrayLength\(&x\)\)/g, '$1')).toBe(line);
    });
    expect(lines.slice(text.split('\n').length).join('\n')).toContain('@group(1) @binding(0)');
  });

  it('accesses through pointers are reported as unchecked', () => {
    const { sites, uncheckedFindings: unchecked } = checked(`${head}let p = &x; (*p)[i] = 1; }`);
    expect(sites).toEqual([]);
    expect(unchecked).toEqual([
      expect.objectContaining({ code: 'unchecked_pointer', line: headLines, column: 9, length: 2 }),
    ]);
  });

  it.each([
    'fn u32x() {} fn f() { let u32 = 1; }',
    'var<private> arrayLength: u32;',
    'fn lathe_index() {}',
    'fn f(array: u32) {}',
    'fn any(x: u32) -> bool { return x > 1; }',
    'const all = 3;',
    'var<private> atomicLoad: u32;',
    'fn f() { var lathe_turns = 1; }',
  ])('names that the additions need are not taken over: %s', (text) => {
    const source = `@group(0) @binding(0) var<storage, read_write> x: array<u32>;\nfn g() { x[0] = 1; } ${text}`;
    const { source: out, sites, uncheckedFindings: unchecked } = checked(source);
    expect(out).toBe(source);
    expect(sites).toEqual([]);
    expect(unchecked).toEqual([
      expect.objectContaining({ code: 'reserved_name', severity: 'warning', line: 2 }),
    ]);
  });

  it('uniform control flow stays uniform', async () => {
    const source = `@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<uniform> n: vec4<u32>;
var<workgroup> sum: u32;
@compute @workgroup_size(64) fn main() {
  if (x[n.x] > x[x[1]]) { workgroupBarrier(); }
}`;
    expect(await errorsOf(source)).toEqual([]);
    expect(await errorsOf(checked(source).source)).toEqual([]);
  });

  it('compiles for the built-in kernels', async () => {
    const failed: string[] = [];
    for (const kernel of kernels) {
      const step = Math.max(1, Math.floor(kernel.variants.length / 12));
      const some: readonly Variant[] = kernel.variants.filter((_, n) => n % step === 0);
      for (const variant of some) {
        const source = assemble(sources, kernel.source, variant);
        const { source: code, sites, uncheckedFindings: unchecked, findings } = recorded(source);
        expect(sites.length, kernel.source).toBeGreaterThan(0);
        expect(findings, kernel.source).toEqual([]);
        expect(unchecked, kernel.source).toEqual([]);
        for (const error of await errorsOf(code)) {
          failed.push(`${kernel.source} ${JSON.stringify(variant)} ${error}`);
        }
      }
    }
    expect(failed).toEqual([]);
  });
});
