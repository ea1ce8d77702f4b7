import { beforeAll, describe, expect, it } from 'vitest';
import { EmulatedKernel } from '../../../src/lab/emulator/emulate.ts';
import { openGpu, type Gpu } from '../../../src/engine/gpu/device.ts';
import { random } from '../../support/kernel-harness.ts';
import { testPlatform } from '../../support/test-platform.ts';

let gpu: Gpu;
let lanes: number;
beforeAll(async () => {
  const platform = testPlatform();
  gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
  lanes = gpu.caps.subgroupSize ?? 0;
  return () => gpu.device.destroy();
});

const threads = 64;
const wordsPerThread = 16;

/** `in` has random words; every thread writes `wordsPerThread` words from `out[base]` on. */
const kernel = (declarations: string, body: string) => /* wgsl */ `
enable subgroups;
@group(0) @binding(0) var<storage, read> given: array<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
${declarations}
fn put(base: u32, at: u32, value: u32) { out[base + at] = value; }
fn putf(base: u32, at: u32, value: f32) { out[base + at] = bitcast<u32>(value); }
fn puti(base: u32, at: u32, value: i32) { out[base + at] = bitcast<u32>(value); }
fn number(at: u32) -> f32 { return (f32(given[at] >> 8u) / 16777216.0 - 0.5) * 8.0; }
@compute @workgroup_size(${threads})
fn main(
  @builtin(local_invocation_index) local: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_size) size: u32,
) {
  let thread = group.x * ${threads}u + local;
  let base = thread * ${wordsPerThread}u;
  _ = given[0];
  ${body}
}`;

const groups = 2;
const given = Uint32Array.from({ length: threads * groups * 4 }, () => 0);
const next = random(11);
for (const i of given.keys()) given[i] = Math.floor(next() * 2 ** 32);

async function native(code: string): Promise<Uint32Array> {
  const { device } = gpu;
  const module = device.createShaderModule({ code });
  const { messages } = await module.getCompilationInfo();
  expect(
    messages.filter(({ type }) => type === 'error').map(({ lineNum, message }) => `${lineNum}: ${message}`),
  ).toEqual([]);
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module } });
  const size = threads * groups * wordsPerThread * 4;
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
  const input = device.createBuffer({ size: given.byteLength, usage });
  const out = device.createBuffer({ size, usage });
  const readback = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  device.queue.writeBuffer(input, 0, given);
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  const entries = [input, out].map((buffer, binding) => ({ binding, resource: { buffer } }));
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(groups);
  pass.end();
  encoder.copyBufferToBuffer(out, 0, readback, 0, size);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const words = new Uint32Array(readback.getMappedRange().slice(0));
  for (const buffer of [input, out, readback]) buffer.destroy();
  return words;
}

function emulated(code: string, subgroupSize = lanes) {
  const out = new Uint32Array(threads * groups * wordsPerThread);
  const findings = new EmulatedKernel(code).dispatch({
    buffers: { given: given.slice(), out },
    grid: [groups, 1, 1],
    subgroupSize,
  });
  return { out, findings };
}

/** Declarations of a module, and the body of `main`. Results are integers, or floats that every implementation rounds alike. */
const exact: Record<string, readonly [declarations: string, body: string]> = {
  integers: [
    '',
    `let a = given[thread]; let b = given[thread + 1u] | 1u; let c = bitcast<i32>(a); let d = bitcast<i32>(b);
     put(base, 0u, a * b + (a >> 3u) - (b << (a & 31u))); put(base, 1u, a / b); put(base, 2u, a % b);
     puti(base, 3u, c * d); puti(base, 4u, c / d); puti(base, 5u, c % d); puti(base, 6u, c >> (a % 32u)); puti(base, 7u, -c - ~d);
     put(base, 8u, (a & b) ^ (a | 7u)); put(base, 9u, min(a, b) + max(a, 77u)); puti(base, 10u, clamp(c, -100000, 5000));
     put(base, 11u, countOneBits(a) + countLeadingZeros(b) * 100u + countTrailingZeros(a) * 10000u);
     put(base, 12u, reverseBits(a)); put(base, 13u, extractBits(a, 5u, 9u)); put(base, 14u, insertBits(a, b, 3u, 11u));
     put(base, 15u, firstLeadingBit(a) + firstTrailingBit(b) * 64u);`,
  ],
  'signed bits and comparisons': [
    '',
    `let c = bitcast<i32>(given[thread]); let d = bitcast<i32>(given[thread + 1u]);
     puti(base, 0u, extractBits(c, 4u, 7u)); puti(base, 1u, firstLeadingBit(c)); puti(base, 2u, abs(c)); puti(base, 3u, sign(c));
     put(base, 4u, u32(c < d) | (u32(c >= d) << 1u) | (u32(c == d) << 2u) | (u32(c != d) << 3u));
     put(base, 5u, select(3u, 4u, (c > 0 && d > 0) || c < -5)); put(base, 6u, u32(all(vec2(c, d) > vec2(0))) + 2u * u32(any(vec2(c, d) > vec2(0))));
     let v = select(vec3(1u, 2u, 3u), vec3(4u), vec3(c > 0, d > 0, true)); put(base, 7u, v.x + v.y * 16u + v.z * 256u);
     puti(base, 8u, dot(vec3(c, d, 5), vec3(d, 3, c))); put(base, 9u, u32(i32(-3)) + u32(3.7)); puti(base, 10u, i32(f32(c) * 0.25));`,
  ],
  packing: [
    '',
    `let a = given[thread]; let b = given[thread + 1u];
     let v = unpack4xU8(a); put(base, 0u, v.x + v.y * 3u + v.z * 5u + v.w * 7u);
     let w = unpack4xI8(a); puti(base, 1u, w.x + w.y * 3 + w.z * 5 + w.w * 7);
     put(base, 2u, pack4xI8(vec4(i32(a), i32(b), -300, 77))); put(base, 3u, pack4xU8Clamp(vec4(a, 300u, b, 3u)));
     puti(base, 4u, dot4I8Packed(a, b)); put(base, 5u, dot4U8Packed(a, b));
     put(base, 6u, pack2x16float(vec2(number(thread), number(thread + 1u) * 0.001)));
     let h = unpack2x16float((a & 0x3fff3fffu) + 0x04000400u); putf(base, 7u, h.x); putf(base, 8u, h.y);
     put(base, 9u, pack4x8snorm(vec4(number(thread) * 0.25, 0.5, -1.0, 2.0)));
     put(base, 10u, pack2x16unorm(vec2(0.25, number(thread))));
     putf(base, 11u, quantizeToF16(number(thread)));`,
  ],
  'floats that are rounded once': [
    '',
    `let a = number(thread); let b = number(thread + 1u);
     putf(base, 0u, a * b); putf(base, 1u, a + b); putf(base, 2u, a - b); putf(base, 3u, a * b);
     putf(base, 4u, floor(a) + ceil(b) * 16.0); putf(base, 5u, trunc(a)); putf(base, 6u, round(a * 2.0)); putf(base, 7u, fract(abs(a)));
     putf(base, 8u, min(a, b)); putf(base, 9u, max(a, b)); putf(base, 10u, clamp(a, -1.0, 1.5)); putf(base, 11u, sign(a));
     putf(base, 12u, step(a, b)); putf(base, 13u, saturate(a)); putf(base, 14u, f32(i32(a * 1000.0))); putf(base, 15u, f32(given[thread]));`,
  ],
  loops: [
    '',
    `var sum = 0u; var turns = 0u;
     for (var i = 0u; i < 20u; i++) { if (i == given[thread] % 7u) { continue; } if (i > 15u) { break; } sum += i * i; }
     put(base, 0u, sum);
     loop { turns++; if (turns % 3u == 0u) { continue; } sum += turns; continuing { sum ^= 5u; break if turns > given[thread] % 9u; } }
     put(base, 1u, sum + turns);
     while (turns > 0u) { turns--; if (turns == 2u) { break; } sum = sum * 3u + turns; }
     put(base, 2u, sum);
     for (var i = 0; i < 5; i += 2) { for (var j = i; j >= 0; j--) { if (j == 1) { continue; } sum += u32(i * 10 + j); } }
     put(base, 3u, sum);`,
  ],
  switch: [
    '',
    `var value = 0u;
     for (var i = 0u; i < 8u; i++) {
       switch (given[thread + i % 2u] + i) % 6u {
         case 0u, 3u: { value += 1u; }
         case 1u: { if (i > 4u) { break; } value += 100u; }
         case 2u { continue; }
         default: { value = value * 2u + 7u; }
       }
       value += 3u;
     }
     put(base, 0u, value);`,
  ],
  'copies of arrays, vectors and structs': [
    `struct Inner { a: vec2<u32>, b: u32 }
     struct Outer { one: Inner, many: array<Inner, 2>, w: array<u32, 3> }
     fn change(given: Outer) -> Outer { var own = given; own.many[1].b = 9u; own.one.a.y = 4u; own.w[2] += 5u; return own; }`,
    `var x = Outer(Inner(vec2(1u, 2u), 3u), array(Inner(vec2(4u, 5u), 6u), Inner(vec2(7u), 8u)), array(10u, 11u, thread));
     let before = x; var y = change(x); x.w[0] = 50u; var z = y.many; z[0].a = vec2(70u, 71u); y.many[1].a.x = 60u;
     put(base, 0u, before.w[0] + x.w[0] * 100u); put(base, 1u, y.many[1].b + x.many[1].b * 100u); put(base, 2u, y.one.a.y + x.one.a.y * 100u);
     put(base, 3u, z[0].a.y + y.many[0].a.y * 100u); put(base, 4u, z[1].a.x + y.many[1].a.x * 100u); put(base, 5u, y.w[2] + before.w[2]);
     var v = vec4(1u, 2u, 3u, 4u); let w = v; v[thread % 4u] = 90u; put(base, 6u, v.x + v.y * 2u + v.z * 4u + v.w * 8u); put(base, 7u, w.wzyx.x + w.xy.y);`,
  ],
  'pointers and private variables': [
    `var<private> count: u32 = 5u; var<private> list: array<u32, 4>;
     struct Pair { a: u32, b: array<u32, 2> }
     fn add(to: ptr<function, u32>, by: u32) { *to = *to + by; count += 1u; list[count % 4u] = by; }
     fn fill(to: ptr<function, Pair>) { (*to).b[1] = 8u; to.a = 9u; }
     fn third(words: ptr<private, array<u32, 4>>) -> u32 { return (*words)[2]; }`,
    `var value = thread; add(&value, 3u); add(&value, count); put(base, 0u, value); put(base, 1u, count); put(base, 2u, list[2] + list[3] * 100u);
     var pair = Pair(1u, array(2u, 3u)); fill(&pair); add(&pair.b[0], 40u); put(base, 3u, pair.a + pair.b[0] * 100u + pair.b[1] * 10000u);
     let p = &pair.b; (*p)[0] += 1u; put(base, 4u, pair.b[0]); put(base, 5u, third(&list));
     var row = array(1u, 2u, 3u); let at = &row[thread % 3u]; *at = 70u; put(base, 6u, row[0] + row[1] + row[2]);`,
  ],
  constants: [
    `const TABLE = array(3u, 1u, 4u, 1u, 5u); const WIDE = vec4(1.5, 2.5, 3.5, 4.5); const N = 3; const BIG: u32 = 0xffu; const SMALL = 0x1.8p-2;
     override SCALE: u32 = 6u; alias Words = vec2<u32>; const_assert N < 4;`,
    `put(base, 0u, TABLE[thread % 5u]); putf(base, 1u, WIDE[thread % 4u] + SMALL); put(base, 2u, N * BIG + SCALE); var w = Words(N, 5); w *= 2u; put(base, 3u, w.x + w.y);
     const half = N * 2; putf(base, 4u, half + 0.5); puti(base, 5u, -half / 4); put(base, 6u, 7 / 2 * 2); putf(base, 7u, 7 / 2.0); let m = mat2x2(1.0, 2.0, 3.0, 4.0) * vec2(1.0, 10.0); putf(base, 8u, m.x + m.y * 100.0);
     let t = transpose(mat2x2f(1.0, 2.0, 3.0, 4.0)); putf(base, 9u, t[0].y + t[1].x * 10.0);`,
  ],
  'effects of calls, once each': [
    `var<private> site: u32; var<private> splat: array<u32, 3>;
     var<workgroup> counts: array<atomic<u32>, ${threads}>; var<workgroup> places: array<u32, ${threads}>;
     fn next() -> u32 { site += 1u; return site; }`,
    `splat[1] = 4u; let splat_4 = vec4(splat[1]); var L = 3u; let R = vec2(L);
     if (local == 0u) { atomicStore(&counts[0], 0u); } workgroupBarrier();
     let before = site; out[base + next()] += 7u; put(base, 2u, site - before);
     let own = atomicAdd(&counts[atomicAdd(&counts[local], 0u) * 0u], 1u) * 0u; workgroupBarrier();
     put(base, 3u, atomicLoad(&counts[0]) + own); put(base, 4u, splat_4.w + R.y); put(base, 5u, out[base + 1u]);`,
  ],
  'workgroup memory and barriers': [
    `struct Cell { a: vec3<f32>, n: u32 } var<workgroup> shared_words: array<u32, ${threads}>; var<workgroup> cells: array<Cell, 4>;
     var<workgroup> total: atomic<u32>; var<workgroup> high: atomic<i32>; var<workgroup> flag: u32;`,
    `if (local == 0u) { atomicStore(&total, 3u); atomicStore(&high, -5); flag = 17u + group.x; }
     shared_words[local] = given[thread]; workgroupBarrier();
     put(base, 0u, shared_words[(local + 13u) % ${threads}u]); atomicAdd(&total, local); atomicMax(&high, i32(local * 2u)); workgroupBarrier();
     put(base, 1u, atomicLoad(&total)); puti(base, 2u, atomicLoad(&high)); put(base, 3u, workgroupUniformLoad(&flag)); workgroupBarrier();
     if (local < 4u) { cells[local] = Cell(vec3(f32(local), 2.0, 3.0), local * 7u); cells[local].a.y += 1.5; }
     workgroupBarrier(); let cell = cells[local % 4u]; put(base, 4u, cell.n); putf(base, 5u, cell.a.x + cell.a.y);
     for (var step = ${threads / 2}u; step > 0u; step /= 2u) { if (local < step) { shared_words[local] += shared_words[local + step]; } workgroupBarrier(); }
     put(base, 6u, shared_words[0]);`,
  ],
  'subgroup operations': [
    '',
    `let a = given[thread]; let c = bitcast<i32>(a);
     put(base, 0u, subgroupAdd(a)); puti(base, 1u, subgroupMax(c)); put(base, 2u, subgroupMin(a)); put(base, 3u, subgroupOr(a & 0xf0f0u) ^ subgroupXor(a) ^ subgroupAnd(a | 1u));
     put(base, 4u, subgroupExclusiveAdd(a)); put(base, 5u, subgroupInclusiveAdd(a)); put(base, 6u, subgroupBroadcastFirst(a) + subgroupBroadcast(a, 2u));
     put(base, 7u, subgroupShuffle(a, (lane * 3u + 1u) % size)); put(base, 8u, subgroupShuffleXor(a, 2u));
     put(base, 9u, select(subgroupShuffleUp(a, 1u), 0u, lane == 0u)); put(base, 10u, select(subgroupShuffleDown(a, 2u), 0u, lane + 2u >= size));
     let ballot = subgroupBallot((a & 1u) == 1u); put(base, 11u, ballot.x); put(base, 12u, u32(subgroupAll(a > 5u)) + 2u * u32(subgroupAny(a < 99999999u)) + 4u * u32(subgroupElect()));
     let v = subgroupShuffleXor(vec2(a, ~a), 1u); put(base, 13u, v.x ^ (v.y << 1u)); put(base, 14u, quadSwapX(a) + quadSwapY(a) * 3u + quadBroadcast(a, 1u)); put(base, 15u, size * 100u + lane);`,
  ],
};

/** Floats that implementations may round differently: relative errors up to 1e-5. */
const close: typeof exact = {
  'functions of floats': [
    '',
    `let a = number(thread); let b = abs(number(thread + 1u)) + 0.5;
     putf(base, 0u, a / b); putf(base, 1u, sqrt(b)); putf(base, 2u, inverseSqrt(fma(a, a, b))); putf(base, 3u, exp(a)); putf(base, 4u, log(b)); putf(base, 5u, pow(b, a));
     putf(base, 6u, tanh(a)); putf(base, 7u, mix(a, b, 0.25)); putf(base, 8u, smoothstep(-1.0, 3.0, a)); putf(base, 9u, length(vec3(a, b, 1.0))); putf(base, 10u, dot(vec4(a, b, a, 1.0), vec4(b, 2.0, 3.0, a)) + 100.0);
     putf(base, 11u, exp2(a)); putf(base, 12u, log2(b)); putf(base, 13u, sin(a) + 2.0); putf(base, 14u, normalize(vec2(a, b)).y); putf(base, 15u, distance(vec2(a, b), vec2(9.0)));`,
  ],
  'sums of a subgroup': [
    '',
    `let a = abs(number(thread)) + 0.1; putf(base, 0u, subgroupAdd(a)); putf(base, 1u, subgroupMax(a)); putf(base, 2u, subgroupMul(1.0 + a * 0.01)); let v = subgroupAdd(vec3(a, 2.0 * a, 1.0)); putf(base, 3u, v.x + v.y + v.z); putf(base, 4u, subgroupInclusiveAdd(a));`,
  ],
};

describe('emulated kernels equal those of the adapter', () => {
  it.each(Object.entries(exact))('%s', async (_, [declarations, body]) => {
    const code = kernel(declarations, body);
    const { out, findings } = emulated(code);
    expect(findings).toEqual([]);
    const expected = await native(code);
    const wrong = [...expected.entries()].filter(([i, word]) => out[i] !== word);
    const named = wrong.map(([i, word]) => ({
      thread: Math.floor(i / wordsPerThread),
      put: i % wordsPerThread,
      word,
      emulated: out[i],
    }));
    expect(named.slice(0, 8)).toEqual([]);
  });

  it.each(Object.entries(close))('%s', async (_, [declarations, body]) => {
    const code = kernel(declarations, body);
    const { out, findings } = emulated(code);
    expect(findings).toEqual([]);
    const expected = new Float32Array((await native(code)).buffer);
    const got = new Float32Array(out.buffer);
    const wrong = [...expected.entries()].filter(
      ([i, value]) => !(Math.abs((got[i] as number) - value) <= 1e-5 * Math.max(1, Math.abs(value))),
    );
    expect(
      wrong.slice(0, 8).map(([i, value]) => ({ put: i % wordsPerThread, value, emulated: got[i] })),
    ).toEqual([]);
  });
});
