import { beforeAll, describe, expect, it } from 'vitest';
import type { WgslSources } from '../../kernels/assemble.ts';
import { assemble } from '../../kernels/assemble.ts';
import { kernels } from '../support/all-kernels.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import {
  overrideValues,
  reflect,
  variableSizeBytes,
  workgroupSize,
  type EntryPoint,
} from '../../src/lab/wgsl/reflect.ts';
import { structLayout, sizeOf, strideOf, typeText } from '../../src/lab/wgsl/types.ts';
import { findReachableNames, findUses } from '../../src/lab/wgsl/uses.ts';
import { nullDevice } from '../support/null-gpu.ts';

const source = `enable f16, subgroups;
requires packed_4x8_integer_dot_product;
diagnostic(off, derivative_uniformity);
alias Four = vec4<f32>;
alias Rows = array<Four, N>;
const N = 4u * M; // declared before what it needs
const M = 2u + 1;
override WG: u32 = 64;
override HALF = WG / 2u;
@id(3) override FACTOR = 0.5;
override COUNT: i32;
override FLAG = true;
struct Head { a: u32, @align(16) b: Rows, c: array<vec3f>, }
@binding(N - 11) @group(0) var<storage, read_write> x: array<array<vec4<f32>, N>>;
@group(0) @binding(2u) var<storage> head: Head;
@group(1) @binding(0) var pixels: texture_2d<f32>;
var<workgroup> scratch: Rows;
var<workgroup> wide: array<Four, WG * 2 + u32(1 < 2)>;
var<private> own = array<u32, 5>();
struct Inputs { @builtin(global_invocation_id) at: vec3u, }
@must_use fn helper(i: u32, rows: ptr<function, array<f32, 4>>) -> u32 { return u32(head.c[i].y) + u32(scratch[0].x); }
const_assert N == 12;
@workgroup_size(WG, N >> 1u,) @compute
fn main(@builtin(workgroup_id) group: vec3<u32>, all: Inputs,) {
  var rows = array<f32, 4>();
  x[group.x][0].x = f32(helper(all.at.x, &rows)) * FACTOR * f32(COUNT) * f32(HALF);
}
@fragment fn shade() {}
`;
const reflection = reflect(source);
const entry = (name: string) => reflection.entryPoints.find((one) => one.name === name) as EntryPoint;

describe('reflection', () => {
  it('uses source that the compiler accepts', async () => {
    const { device } = await nullDevice();
    const { messages } = await device.createShaderModule({ code: source }).getCompilationInfo();
    expect(messages.map(({ message }) => message)).toEqual([]);
  });

  it('directives, with places', () => {
    expect(reflection.enables).toEqual([
      { name: 'f16', line: 1, column: 8, length: 3 },
      { name: 'subgroups', line: 1, column: 13, length: 9 },
    ]);
    expect(reflection.requires).toEqual([
      { name: 'packed_4x8_integer_dot_product', line: 2, column: 10, length: 30 },
    ]);
  });

  it('overrides, with declared types or types of the default', () => {
    expect(reflection.overrides).toEqual([
      { name: 'WG', line: 8, column: 10, length: 2, type: 'u32', hasDefault: true },
      { name: 'HALF', line: 9, column: 10, length: 4, type: 'u32', hasDefault: true },
      { name: 'FACTOR', line: 10, column: 17, length: 6, type: 'f32', hasDefault: true, id: 3 },
      { name: 'COUNT', line: 11, column: 10, length: 5, type: 'i32', hasDefault: false },
      { name: 'FLAG', line: 12, column: 10, length: 4, type: 'bool', hasDefault: true },
    ]);
    expect(overrideValues(reflection)).toEqual({ WG: 64, HALF: 32, FACTOR: 0.5, FLAG: 1 });
    expect(overrideValues(reflection, { WG: 128, COUNT: 3 })).toEqual({
      WG: 128,
      HALF: 64,
      FACTOR: 0.5,
      COUNT: 3,
      FLAG: 1,
    });
  });

  it('variables: binding, address space, access, type', () => {
    const list = reflection.variables.map(
      ({ name, group, binding, space, access, typeText: text }) =>
        `${name} ${group ?? ''}:${binding ?? ''} ${space} ${access} ${text}`,
    );
    expect(list).toEqual([
      'x 0:1 storage read_write array<array<vec4<f32>, N>>',
      'head 0:2 storage read Head',
      'pixels 1:0 handle read texture_2d<f32>',
      'scratch : workgroup read_write array<vec4<f32>, N>',
      'wide : workgroup read_write array<vec4<f32>, WG * 2 + u32(1 < 2)>',
      'own : private read_write array<u32, 5>',
    ]);
    expect(reflection.variables[0]).toMatchObject({ line: 14, column: 53, length: 1 });
    expect(reflection.variables[0]?.typeLocation).toEqual({ line: 14, column: 56, length: 26 });
  });

  it('sizes in bytes, with overrides', () => {
    const bytes = (name: string, values = {}) => {
      const variable = reflection.variables.find((one) => one.name === name);
      return variable && variableSizeBytes(reflection, variable, values);
    };
    expect(bytes('scratch')).toBe(192);
    expect(bytes('wide')).toBe(16 * 129);
    expect(bytes('wide', { WG: 128 })).toBe(16 * 257);
    expect(bytes('own')).toBe(20);
  });

  it('entry points: stage, size, builtins of parameters and structs', () => {
    expect(reflection.entryPoints.map(({ name, stage }) => `${name} ${stage}`)).toEqual([
      'main compute',
      'shade fragment',
    ]);
    expect(entry('main')).toMatchObject({
      line: 24,
      column: 4,
      builtins: ['workgroup_id', 'global_invocation_id'],
      workgroupLocation: { line: 23, column: 1, length: 29 },
    });
    expect(workgroupSize(reflection, entry('main'))).toEqual([64, 6, 1]);
    expect(workgroupSize(reflection, entry('main'), { WG: 8 })).toEqual([8, 6, 1]);
  });

  it('names that a function uses, directly and through calls', () => {
    expect([...findReachableNames(reflection, 'main')].sort()).toEqual(
      expect.arrayContaining(['COUNT', 'HALF', 'head', 'helper', 'scratch', 'x']),
    );
    expect(findReachableNames(reflection, 'main').has('wide')).toBe(false);
    expect(findReachableNames(reflection, 'shade')).toEqual(new Set(['shade']));
  });

  it('layout follows WGSL', () => {
    const made = reflect(`struct Inner { a: f32, b: vec3<f32>, }
struct S { a: u32, b: vec3f, c: f32, d: vec2<f16>, e: mat3x3<f32>, f: array<Inner, 2>, @size(32) g: u32, h: mat4x2h }`);
    const s = made.structs.get('S');
    const countOf = (count: { from: number; to: number }) => made.evaluate(count);
    expect(s && structLayout(s, countOf)?.map(({ offset }) => offset)).toEqual([
      0, 16, 28, 32, 48, 96, 160, 192,
    ]);
    expect(s && sizeOf({ kind: 'struct', struct: s }, countOf)).toBe(208);
    expect(strideOf({ kind: 'vector', width: 3, element: 'f32' }, countOf)).toBe(16);
    expect(typeText({ kind: 'matrix', columns: 4, rows: 2, element: 'f16' }, String)).toBe('mat4x2<f16>');
  });

  it.each<[string, number | undefined]>([
    ['7 / 2', 3],
    ['7.0 / 2', 3.5],
    ['-7 / 2', -3],
    ['1u << 5u | 3', 35],
    ['~0u', 4294967295],
    ['~0i', -1],
    ['(0xffu & 0x0f) ^ 1u', 14],
    ['select(3, 4, 2 > 1)', 4],
    ['max(2u, min(9u, 7u))', 7],
    ['clamp(12, 0, 8)', 8],
    ['firstLeadingBit(64u)', 6],
    ['countTrailingZeros(48u)', 4],
    ['0x1.8p1 * 2', 6],
    ['u32(-1i)', 4294967295],
    ['1 / 0', undefined],
    ['vec2(1, 2).x', undefined],
    ['unknown + 1', undefined],
    ['!(1 < 2) || true', 1],
  ])('%s is %s', (text, expected) => {
    const made = reflect(`const VALUE = ${text};`);
    const at = made.tokens.findIndex(({ text: name }) => name === 'VALUE');
    expect(made.evaluate({ from: at, to: at + 1 })).toBe(expected);
  });

  it('constants that are used many times are evaluated once', () => {
    const lines = Array.from(
      { length: 60 },
      (_, n) => `const C${n + 1} = C${n} + C${n} - C${n} + C${n} - C${n};`,
    );
    const made = reflect(`const C0 = 5;\n${lines.join('\n')}\n@compute @workgroup_size(C60) fn main() {}`);
    expect(made.entryPoints[0] && workgroupSize(made, made.entryPoints[0])).toEqual([5, 1, 1]);
  });

  it('nested structs are processed once', () => {
    const lines = Array.from({ length: 40 }, (_, n) => `struct S${n + 1} { a: S${n}, b: S${n}, c: S${n}, }`);
    const made = reflect(
      `struct S0 { a: f32, }\n${lines.join('\n')}\n@group(0) @binding(0) var<storage> x: array<S40>;`,
    );
    expect(made.variables).toHaveLength(1);
    const type = made.variables[0]?.type;
    expect(type?.kind === 'array' && strideOf(type.element, () => 1)).toBe(4 * 3 ** 40);
  });

  it('text that is not WGSL gives a result and terminates', () => {
    for (const text of [
      '',
      '}',
      '{',
      'fn',
      'fn main( {',
      'struct',
      'var<',
      '@',
      'const A = A;',
      'alias A = A; var<private> x: A;',
      'fn f() { if } for ( { ; ) ',
    ]) {
      expect(() => reflect(text).functions.map((fn) => findUses(reflect(text), fn)), text).not.toThrow();
    }
  });
});

describe('scopes', () => {
  /** Uses of module-scope names in main, with `=` for assignments. */
  const uses = (body: string): string => {
    const made = reflect(`var<private> x: u32; var<private> y: u32;\nfn f(y: u32) {\n${body}\n}`);
    const [fn] = made.functions;
    return findUses(made, fn as never)
      .filter(({ name }) => name === 'x' || name === 'y')
      .map(({ name, isAssigned: assigned }) => (assigned ? `${name}=` : name))
      .join(' ');
  };

  it.each<[string, string]>([
    ['x = x + y;', 'x= x'],
    ['let x = x; x += 1;', 'x'],
    ['{ var x = 1u; x++; } x++;', 'x='],
    ['for (var x = x; x < 3; x++) { x = 2; } x = 1;', 'x x='],
    ['if (x > 1) { let x = 2; } else if (x > 2) { x = 1; } else { x -= 1; }', 'x x x= x='],
    ['loop { let x = 1; continuing { x; break if x > 1; } }', ''],
    ['switch x { case 1: { let x = 2; x; } default { x = 2; } }', 'x x='],
    ['while x < 3 { x++; }', 'x x='],
    ['a.x = b.x;', ''],
    ['_ = x;', 'x'],
    ['(x) = 1;', 'x='],
    ['z[x] = 1;', 'x'],
    ['return x;', 'x'],
  ])('%s uses %s', (body, expected) => {
    expect(uses(body)).toBe(expected);
  });
});

describe('built-in kernels', () => {
  let sources: WgslSources;
  beforeAll(async () => {
    sources = await nodePlatform().wgsl();
  });

  it('reflection finds the declared bindings of each', () => {
    for (const kernel of kernels) {
      for (const variant of kernel.variants.slice(0, 8)) {
        const made = reflect(assemble(sources, kernel.source, variant));
        const found = made.variables
          .filter(({ isResource }) => isResource)
          .map(
            ({ name, binding, space, access }) =>
              `${binding} ${name} ${space === 'uniform' ? space : access}`,
          );
        const declared = kernel
          .bindings(variant)
          .flatMap((one, n) => (one ? [`${n} ${one[0]} ${one[1]}`] : []));
        expect(found.sort(), kernel.source).toEqual(declared.sort());
        const [x] = made.entryPoints[0] ? workgroupSize(made, made.entryPoints[0]) : [];
        expect(x, kernel.source).toBeGreaterThan(0);
        for (const variable of made.variables.filter(({ space }) => space === 'workgroup')) {
          expect(variableSizeBytes(made, variable), `${kernel.source} ${variable.name}`).toBeGreaterThan(0);
        }
      }
    }
  });
});
