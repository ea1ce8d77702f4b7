import { describe, expect, it } from 'vitest';
import { contracts, type Contract } from '../../kernels/contracts.ts';
import { formatNames } from '../../kernels/formats.ts';
import { checkInterface, type DeviceCapabilities } from '../../src/lab/stages/interface.ts';
import type { Finding, KernelRegistration } from '../../src/lab/types.ts';
import { reflect } from '../../src/lab/wgsl/reflect.ts';

const device: DeviceCapabilities = {
  limits: {
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupSizeX: 256,
    maxComputeWorkgroupSizeY: 256,
    maxComputeWorkgroupSizeZ: 64,
    maxComputeWorkgroupStorageSize: 16384,
    maxStorageBuffersPerShaderStage: 8,
  },
  features: ['shader-f16'],
};

const contractOf = (op: string): Contract => contracts.get(op) as Contract;

/** Findings of a kernel, by default for `rms_norm`. */
function check(source: string, more: Partial<KernelRegistration> = {}, facts = device): Finding[] {
  const registration = { name: 'test', op: 'rms_norm', source, dispatch: { x: 'tokens' }, ...more };
  return checkInterface(registration, contractOf(registration.op), reflect(source), facts);
}

const place = ({ line, column, length }: Finding) =>
  line === undefined ? '' : ` ${line}:${column}+${length}`;
const brief = (findings: readonly Finding[]) =>
  findings.map((one) => `${one.code}${place(one)} ${one.message}`);

const good = `struct Params { columns: u32, eps: f32, }
struct Step { tokens: u32, }
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;
@compute @workgroup_size(64) fn main() { y[0] = 1; }
`;

/** The valid kernel with one line replaced; lines count from 1. */
const withLine = (line: number, text: string): string =>
  good
    .split('\n')
    .with(line - 1, text)
    .join('\n');

describe('interface stage', () => {
  it('good kernels have no findings', () => {
    expect(check(good)).toEqual([]);
    const minimalKernel =
      '@group(0) @binding(2) var<storage, read_write> y: array<f32>;\n@compute @workgroup_size(1) fn main() { y[0] = 1; }';
    expect(check(minimalKernel)).toEqual([]);
  });

  it('entry points', () => {
    const named = good.replace('fn main', 'fn norm');
    expect(brief(check(named))).toEqual([
      "missing_entry_point expected an entry point 'main', got norm (compute)",
    ]);
    expect(check(named, { entry_point: 'norm' })).toEqual([]);
    expect(brief(check('fn main() {}'))).toEqual([
      "missing_entry_point expected an entry point 'main', got no entry point",
    ]);
    expect(brief(check(good.replace('@compute @workgroup_size(64)', '@vertex')))).toEqual([
      'entry_point_stage 8:12+4 main: expected a compute shader, got a vertex shader',
    ]);
  });

  it.each<[string, number, string, string[]]>([
    [
      'group',
      3,
      '@group(1) @binding(0) var<storage, read> x: array<f32>;',
      ['wrong_group 3:42+1 x: expected group 0, got 1'],
    ],
    [
      'unknown number',
      3,
      '@group(0) @binding(2 + 5) var<storage, read> x: array<f32>;',
      [
        'unknown_binding 3:46+1 x: expected a binding of rms_norm (0 x, 1 norm_weight, 2 y, 3 params, 4 step), got 7',
      ],
    ],
    [
      'number 0 too',
      3,
      '@group(0) @binding(0) var<uniform> x: Params;',
      ['binding_space 3:36+1 x: expected var<storage>, got var<uniform>'],
    ],
    [
      'twice',
      3,
      '@group(0) @binding(1) var<storage, read> x: array<f32>;',
      [
        'binding_name 3:42+1 binding 1 is named norm_weight in the op and x here',
        'duplicate_binding 4:42+11 norm_weight: expected one variable at binding 1, got x and norm_weight',
      ],
    ],
    [
      'name',
      3,
      '@group(0) @binding(0) var<storage> input: array<f32>;',
      ['binding_name 3:36+5 binding 0 is named x in the op and input here'],
    ],
    [
      'written input',
      3,
      '@group(0) @binding(0) var<storage, read_write> x: array<f32>;',
      ['binding_access 3:48+1 x: expected read, got read_write (inputs are shared)'],
    ],
    [
      'output that is read only',
      5,
      '@group(0) @binding(2) var<storage> y: array<f32>;',
      ['binding_access 5:36+1 y: expected read_write, got read (out bindings are written)'],
    ],
    [
      'texture',
      3,
      '@group(0) @binding(0) var x: texture_2d<f32>;',
      ['binding_space 3:27+1 x: expected var<storage>, got texture_2d<f32>'],
    ],
    [
      'elements',
      3,
      '@group(0) @binding(0) var<storage> x: array<vec2<u32>>;',
      [
        'element_type 3:39+16 x: expected elements of f32 or vectors of them (f32), got u32 in array<vec2<u32>>',
      ],
    ],
    [
      'length',
      3,
      '@group(0) @binding(0) var<storage> x: array<f32, 64>;',
      [
        'not_an_array 3:39+14 x: expected an array sized by its buffer, for example array<f32>, got array<f32, 64>',
      ],
    ],
    [
      'no array',
      3,
      '@group(0) @binding(0) var<storage> x: f32;',
      ['not_an_array 3:39+3 x: expected an array sized by its buffer, for example array<f32>, got f32'],
    ],
    [
      'gaps',
      5,
      '@group(0) @binding(2) var<storage, read_write> y: array<vec3<f32>>;',
      [
        'padded_element 5:51+16 y: elements of 12 bytes have a stride of 16 bytes in array<vec3<f32>>, but the op packs them',
      ],
    ],
    [
      'uniform that is no struct',
      6,
      '@group(0) @binding(3) var<uniform> params: vec2<f32>;',
      ['uniform_type 6:44+9 params: expected a struct of columns: u32, eps: f32, got vec2<f32>'],
    ],
    [
      'order of members',
      1,
      'struct Params { eps: f32, columns: u32, }',
      [
        'uniform_member 1:17+3 Params.eps: expected columns: u32, got f32',
        'uniform_member 1:27+7 Params.columns: expected eps: f32, got u32',
      ],
    ],
    [
      'too many members',
      1,
      'struct Params { columns: u32, eps: f32, more: f32 }',
      ['uniform_member 1:41+4 Params.more: expected at most 2 members (columns: u32, eps: f32), got 3'],
    ],
    [
      'place of members',
      1,
      'struct Params { columns: u32, @align(8) eps: f32, }',
      ['uniform_member 1:41+3 Params.eps: expected byte offset 4, got 8'],
    ],
    [
      'names of members',
      1,
      'struct Params { width: u32, eps: f32, }',
      ['uniform_member_name 1:17+5 Params.width holds columns'],
    ],
    ['fewer members', 1, 'struct Params { columns: i32, }', []],
    [
      'output that is not there',
      5,
      'var<private> y: array<f32, 1>;',
      ['missing_output 8:33+4 expected @group(0) @binding(2) var<storage, read_write> y, got none'],
    ],
    [
      'output that is not used',
      8,
      '@compute @workgroup_size(64) fn main() { let y = 1; }',
      [
        'missing_output 5:48+1 expected @group(0) @binding(2) var<storage, read_write> y, got one that main does not use',
      ],
    ],
  ])('%s', (_, line, text, expected) => {
    expect(brief(check(withLine(line, text)))).toEqual(expected);
  });

  it('severities: names are info or warning, everything else is an error', () => {
    const severities = (line: number, text: string) =>
      check(withLine(line, text)).map(({ severity }) => severity);
    expect(severities(3, '@group(0) @binding(0) var<storage> z: array<f32>;')).toEqual(['info']);
    expect(severities(1, 'struct Params { a: u32, }')).toEqual(['warning']);
    expect(severities(3, '@group(0) @binding(0) var<storage> x: f32;')).toEqual(['error']);
  });

  it('element types by dtype', () => {
    const refused = (op: string, binding: number, access: string, type: string): boolean =>
      check(
        `struct Word { a: u32, b: f32, c: vec2<i32> } struct Half { a: vec2<f16>, b: f16, } struct Tail { first: vec4<f32>, rest: array<f32>, }
@group(0) @binding(${binding}) var<storage, ${access}> it: ${type};`,
        { op },
      ).some(
        ({ code, severity }) => severity === 'error' && (code === 'element_type' || code === 'not_an_array'),
      );
    const quants = (type: string) => refused('matmul', 0, 'read', type);
    expect(
      ['array<vec4<u32>>', 'array<vec4<f32>>', 'array<f16>', 'array<i32>', 'array<Half>'].map(quants),
    ).toEqual(Array.from({ length: 5 }, () => false));
    const scales = (type: string) => refused('matmul', 1, 'read', type);
    // Halves, floats or bytes, by the format.
    expect(['array<u32>', 'array<vec2<f16>>', 'array<f32>'].map(scales)).toEqual([false, false, false]);
    const cache = (type: string) => refused('attention', 3, 'read', type);
    expect(['array<u32>', 'array<vec2<f16>>'].map(cache)).toEqual([false, false]);
    expect(['array<f32>', 'array<i32>'].map(cache)).toEqual([true, true]);
    const token = (type: string) => refused('rope', 2, 'read', type);
    expect(['array<vec4<u32>>', 'array<vec4i>', 'array<Word>'].map(token)).toEqual([false, false, false]);
    expect(['array<vec4<f32>>', 'array<Half>'].map(token)).toEqual([true, true]);
    const qkv = (type: string) => refused('rope', 0, 'read_write', type);
    expect(['array<vec2f>', 'Tail', 'array<array<f32, 4>>', 'array<atomic<u32>>'].map(qkv)).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });

  describe('workgroups', () => {
    const sized = (size: string, more = '') =>
      good.replace('@workgroup_size(64) fn main() {', `@workgroup_size(${size}) fn main() {${more}`);

    it('size: by axis and total', () => {
      expect(brief(check(sized('16, 17')))).toEqual([
        'workgroup_size 8:10+23 maxComputeInvocationsPerWorkgroup: expected at most 256, got 272',
      ]);
      expect(brief(check(sized('1, 1, 65')))).toEqual([
        'workgroup_size 8:10+25 maxComputeWorkgroupSizeZ: expected at most 64, got 65',
      ]);
      expect(brief(check(sized('512'))).map((text) => text.replace(/ .*?(?=max)/, ' '))).toEqual([
        'workgroup_size maxComputeWorkgroupSizeX: expected at most 256, got 512',
        'workgroup_size maxComputeInvocationsPerWorkgroup: expected at most 256, got 512',
      ]);
      expect(check(sized('256'))).toEqual([]);
    });

    it('size by overrides: an error if too large for every combination, a warning for some', () => {
      const source = `override WG: u32 = 512;\n${sized('WG')}`;
      expect(brief(check(source))).toContain(
        'workgroup_size 9:10+19 maxComputeWorkgroupSizeX: expected at most 256, got 512',
      );
      expect(check(source, { overrides: { WG: 128 } })).toEqual([]);
      const some = check(source, { tunables: { WG: [64, 512, 1024, 0] } });
      expect(some.map(({ severity }) => severity)).toEqual(['warning', 'warning', 'warning']);
      expect(brief(some)).toContain(
        'workgroup_size 9:10+19 maxComputeWorkgroupSizeX: expected at most 256, got 512 with WG=512',
      );
      expect(brief(some)).toContain(
        'workgroup_size 9:10+19 workgroup_size x: expected a whole number above 0, got 0 with WG=0',
      );
      expect(check(source, { tunables: { WG: [512, 1024] } }).map(({ severity }) => severity)).toEqual([
        'error',
        'error',
      ]);
    });

    it('memory: of the variables that the entry point uses', () => {
      const memory = `override ROWS: u32 = 4;\nvar<workgroup> a: array<vec4<f32>, 1000>;\nvar<workgroup> b: array<f32, ROWS * 32>;\n`;
      const uses = memory + sized('64', ' a[0].x = 1; b[0] = 1;');
      expect(check(uses, { overrides: { ROWS: 3 } })).toEqual([]);
      expect(brief(check(uses))).toEqual([
        'workgroup_memory 2:16+1 maxComputeWorkgroupStorageSize: expected at most 16384 bytes, got 16512 (a, b)',
      ]);
      expect(check(memory + sized('64', ' b[0] = 1;'))).toEqual([]);
    });

    it('storage buffers of the op', () => {
      const facts = { ...device, limits: { ...device.limits, maxStorageBuffersPerShaderStage: 2 } };
      expect(brief(check(good, {}, facts))).toEqual([
        'too_many_storage_buffers maxStorageBuffersPerShaderStage: expected at least 3 for rms_norm, got 2',
      ]);
    });
  });

  describe('registration', () => {
    const source = `override WG: u32 = 64;\noverride SIGN = -1;\noverride SCALE: f32;\noverride FAST = true;\n@id(7) override OLD = 1u;\n${good}`;

    it('overrides: unknown, missing, by id, and out of range', () => {
      const overrides = { WG: 1.5, SIGN: 2 ** 31, FAST: 2, WIDTH: 3, SCALE: 1e39 };
      expect(brief(check(source, { overrides }))).toEqual([
        'unknown_override overrides.WIDTH: expected an override of the module (WG, SIGN, SCALE, FAST, OLD), got WIDTH',
        'override_value 1:10+2 overrides.WG: expected a whole number from 0 to 4294967295, got 1.5',
        'override_value 2:10+4 overrides.SIGN: expected a whole number from -2147483648 to 2147483647, got 2147483648',
        'override_value 3:10+5 overrides.SCALE: expected a number that f32 can hold, got 1e+39',
        'override_value 4:10+4 overrides.FAST: expected 0 or 1, got 2',
        'override_id 5:17+3 OLD: expected no @id, got @id(7); overrides are set by name',
      ]);
      const codes = check(source, { tunables: { WG: [32, -1, Number.NaN] } }).map(({ code }) => code);
      expect(codes).toEqual(['override_value', 'override_value', 'missing_override', 'override_id']);
      const fine = source.replace('@id(7) ', '');
      expect(
        check(fine, { overrides: { SCALE: -0.5, FAST: 0, SIGN: -5 }, tunables: { WG: [1, 2] } }),
      ).toEqual([]);
    });

    it('tunables: without values, and too many', () => {
      const two = 'override A: u32; override B: u32;\n' + good;
      const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
      expect(check(two, { tunables: { A: numbers(8), B: numbers(8) } })).toEqual([]);
      expect(brief(check(two, { tunables: { A: numbers(13), B: numbers(5) } }))).toEqual([
        'too_many_combinations tunables: expected at most 64 combinations, got 65',
      ]);
      expect(brief(check(two, { tunables: { A: [], B: [1] } }))).toEqual([
        'empty_tunable tunables.A: expected values to try, got none',
      ]);
      expect(
        check(two, { tunables: { A: numbers(100_000), B: numbers(100_000) } }).map(({ code }) => code),
      ).toEqual(['too_many_combinations']);
    });

    it('dispatch: syntax and names, of every axis', () => {
      const dispatch = { x: 'ceil(rows / WG)', y: 'tokens +', z: 'columns' };
      expect(brief(check(good, { dispatch }))).toEqual([
        "dispatch_name dispatch.x: expected a dim of rms_norm or an override (tokens, columns), got rows in 'ceil(rows / WG)'",
        "dispatch_name dispatch.x: expected a dim of rms_norm or an override (tokens, columns), got WG in 'ceil(rows / WG)'",
        "dispatch_syntax dispatch.y: expected a number, a name or (, got the end at character 9 of 'tokens +'",
      ]);
      expect(check(`override WG = 4u;\n${good}`, { dispatch: { x: 'tokens / WG' } })).toEqual([]);
    });

    it('dispatch: `context` is not allowed, because it differs between rows', () => {
      const findings = check(good, { op: 'attention', dispatch: { x: 'heads', y: 'ceil(context / 64)' } });
      expect(brief(findings)).toContain(
        "dispatch_name dispatch.y: expected a dim of attention or an override (tokens, heads, kv_heads, head_dim), got context in 'ceil(context / 64)'",
      );
    });

    it('features: missing, implied, and not enabled', () => {
      const f16 = `enable f16;\n${good}`;
      expect(check(f16, { requires: ['shader-f16'] })).toEqual([]);
      expect(check(f16)).toEqual([
        expect.objectContaining({ code: 'feature_implied', severity: 'info', line: 1, column: 8, length: 3 }),
      ]);
      expect(brief(check(good, { requires: ['shader-f16'] }))).toEqual([
        'feature_unused requires shader-f16, but the source does not enable it',
      ]);
      expect(brief(check(good, { requires: ['subgroups'] }))).toEqual([
        'feature_missing requires: expected a feature of this adapter, got subgroups',
      ]);
      expect(brief(check(`enable subgroups;\n${good}`))).toEqual([
        'feature_missing 1:8+9 enable subgroups: expected the feature subgroups, got an adapter without it',
      ]);
    });

    it('weight formats', () => {
      expect(brief(check(good, { dtypes: ['q8_0'] }))).toEqual([
        'dtype_not_applicable dtypes: expected none, as rms_norm reads no weights, got q8_0',
      ]);
      const y =
        '@group(0) @binding(3) var<storage, read_write> y: array<f32>;\n@compute @workgroup_size(1) fn main() { y[0] = 1; }';
      expect(check(y, { op: 'matmul', dtypes: ['q8_0', 'q4_0', 'f16', 'bf16', 'f32'] })).toEqual([]);
      expect(brief(check(y, { op: 'matmul', dtypes: ['q8_1', 'f32'] }))).toEqual([
        `unknown_dtype dtypes: expected ${formatNames.join(', ')}, got q8_1`,
      ]);
    });
  });

  it('all findings at once, sorted by location', () => {
    const source = `override N: u32;
@group(0) @binding(2) var<storage, read> y: array<u32>;
@group(2) @binding(0) var<storage, read> x: array<f32>;
@compute @workgroup_size(300) fn main() { let a = y[0]; }`;
    const findings = check(source, { dispatch: { x: '' }, overrides: { M: 1 } });
    expect(findings.map(({ code, line }) => `${line ?? '-'} ${code}`)).toEqual([
      '- unknown_override',
      '- dispatch_syntax',
      '1 missing_override',
      '2 binding_access',
      '2 element_type',
      '3 wrong_group',
      '4 workgroup_size',
      '4 workgroup_size',
    ]);
  });
});
