import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readyPeers } from '../../bench/peers/compare.ts';
import { mlcShards, writeMlcModel } from '../../bench/peers/mlc-model.ts';
import { onnxNames, writeOnnxModel } from '../../bench/peers/onnx-model.ts';
import { onnxModel, onnxType } from '../../bench/peers/onnx-writer.ts';
import { type Peer, type PeerId, peers } from '../../bench/peers/peers.ts';
import { type ModelShape, realShapes } from '../support/random-model.ts';
import { describeShared } from '../support/shared.ts';

/** The fields of a protobuf message, in order: numbers, and bytes for all others. */
function fieldsOf(message: Uint8Array): [field: number, value: number | Uint8Array][] {
  const fields: [number, number | Uint8Array][] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++] ?? 0;
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const kind = tag % 8;
    const length = kind === 0 ? 0 : kind === 5 ? 4 : varint();
    fields.push([Math.floor(tag / 8), kind === 0 ? varint() : message.subarray(at, at + length)]);
    at += length;
  }
  return fields;
}

const all = (message: Uint8Array, field: number) =>
  fieldsOf(message).flatMap(([number, value]) => (number === field ? [value] : []));
const messages = (message: Uint8Array, field: number) =>
  all(message, field).filter((value) => typeof value !== 'number');
const strings = (message: Uint8Array, field: number) =>
  messages(message, field).map((value) => new TextDecoder().decode(value));
const numbers = (message: Uint8Array, field: number) =>
  all(message, field).filter((value) => typeof value === 'number');
const only = <Value>(values: readonly Value[]): Value => {
  expect(values).toHaveLength(1);
  return values[0] as Value;
};

const small: ModelShape = {
  architecture: 'llama',
  layers: 2,
  embedding: 64,
  heads: 2,
  kvHeads: 1,
  headSize: 32,
  feedForward: 96,
  vocab: 320,
  context: 64,
  type: 'Q4_0',
  tiedEmbeddings: true,
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-peers-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('ONNX', () => {
  it('writes each part of a graph to its field', () => {
    const graph = only(
      messages(
        onnxModel({
          nodes: [
            {
              op: 'Scale',
              domain: 'com.microsoft',
              inputs: ['x', '', 'w'],
              outputs: ['y'],
              ints: { bits: 300 },
              floats: { epsilon: 0.5 },
            },
          ],
          initializers: [{ name: 'w', type: onnxType.uint8, shape: [3, 1], data: Uint8Array.of(1, 0, 255) }],
          inputs: [{ name: 'x', type: onnxType.float, shape: [1, 'tokens'] }],
          outputs: [{ name: 'y', type: onnxType.int64, shape: [] }],
        }),
        7,
      ),
    );
    const node = only(messages(graph, 1));
    expect([strings(node, 1), strings(node, 2), strings(node, 4), strings(node, 7)]).toEqual([
      ['x', '', 'w'],
      ['y'],
      ['Scale'],
      ['com.microsoft'],
    ]);
    const [bits, epsilon] = messages(node, 5);
    if (!bits || !epsilon) throw new Error('an attribute is missing');
    expect([strings(bits, 1), numbers(bits, 3), numbers(bits, 20)]).toEqual([['bits'], [300], [2]]);
    expect([strings(epsilon, 1), numbers(epsilon, 20)]).toEqual([['epsilon'], [1]]);
    expect([...only(messages(epsilon, 2))]).toEqual([...new Uint8Array(new Float32Array([0.5]).buffer)]);

    const weight = only(messages(graph, 5));
    expect([numbers(weight, 1), numbers(weight, 2), strings(weight, 8)]).toEqual([[3, 1], [2], ['w']]);
    expect([...only(messages(weight, 9))]).toEqual([1, 0, 255]);

    const input = only(messages(only(messages(only(messages(graph, 11)), 2)), 1));
    expect(numbers(input, 1)).toEqual([1]);
    const [one, tokens] = messages(only(messages(input, 2)), 1);
    if (!one || !tokens) throw new Error('a dimension is missing');
    expect([numbers(one, 1), strings(tokens, 2)]).toEqual([[1], ['tokens']]);
  });

  it('creates a decoder with one matmul for q, k and v, a cache per layer, and tied logits', async () => {
    const path = join(folder, 'small.onnx');
    await writeOnnxModel(path, small);
    const graph = only(messages(await readFile(path), 7));
    const ops = messages(graph, 1).map((node) => only(strings(node, 4)));
    const count = (op: string) => ops.filter((one) => one === op).length;
    expect([count('MatMulNBits'), count('GroupQueryAttention')]).toEqual([2 * 5 + 1, 2]);
    const names = (field: number) => messages(graph, field).map((value) => only(strings(value, 1)));
    expect(names(12)).toEqual([
      onnxNames.logits,
      'present.0.key',
      'present.0.value',
      'present.1.key',
      'present.1.value',
    ]);
    // Every node reads an input, a weight, or an output of an earlier node.
    const known = new Set([
      '',
      ...names(11),
      ...messages(graph, 5).map((weight) => only(strings(weight, 8))),
    ]);
    for (const node of messages(graph, 1)) {
      for (const name of strings(node, 1)) expect(known).toContain(name);
      for (const name of strings(node, 2)) known.add(name);
    }
    for (const name of names(12)) expect(known).toContain(name);
  });
});

describe('MLC', () => {
  it('writes shards with contiguous records, and lists them', async () => {
    const path = join(folder, 'mlc');
    await writeMlcModel(path, { ...small, architecture: 'qwen2' }, 'q4f32_1');
    const cache = JSON.parse(await readFile(join(path, 'tensor-cache.json'), 'utf8')) as {
      records: {
        dataPath: string;
        nbytes: number;
        records: { name: string; nbytes: number; byteOffset: number; dtype: string }[];
      }[];
    };
    expect(cache.records).toHaveLength(small.layers + 2);
    for (const shard of cache.records) {
      let end = 0;
      for (const { byteOffset, nbytes } of shard.records) {
        expect(byteOffset).toBe(end);
        end += nbytes;
      }
      expect([end, (await readFile(join(path, shard.dataPath))).length]).toEqual([
        shard.nbytes,
        shard.nbytes,
      ]);
    }
    const types = new Set(cache.records.flatMap(({ records }) => records.map(({ dtype }) => dtype)));
    expect([...types].sort()).toEqual(['float32', 'uint32']);
  });
});

describeShared('MLC, a real model', ['data/mlc/qwen2.5-med-q4f16_1/tensor-cache.json'], (path) => {
  it('has the names, shapes and types of that model', async () => {
    interface Weight {
      readonly name: string;
      readonly shape: readonly number[];
      readonly dtype: string;
      readonly nbytes: number;
    }
    const real = JSON.parse(await readFile(path, 'utf8')) as { records: { records: Weight[] }[] };
    const sorted = (weights: readonly Weight[]) =>
      weights
        .map(({ name, shape, dtype, nbytes }) => ({ name, shape, dtype, nbytes }))
        .sort((a, b) => (a.name < b.name ? -1 : 1));
    const ours = mlcShards({ ...realShapes.qwen25_05b, type: 'Q4_0' }, 'q4f16_1');
    expect(sorted(ours.flat())).toEqual(sorted(real.records.flatMap(({ records }) => records)));
  });
});

describe('peers', () => {
  const peer = (id: PeerId): Peer => {
    const found = peers.find((one) => one.id === id);
    if (!found) throw new Error(`no peer ${id}`);
    return found;
  };
  const goals = (id: PeerId, name: string) =>
    peer(id)
      .measurements({ name, path: '', randomWeights: true })
      .map(({ promptTokens, decodeGoal, prefillGoal }) => [promptTokens, decodeGoal, prefillGoal]);

  it('have the specified targets', () => {
    expect(goals('llama.cpp', 'smollm2-135m-q4_0')).toEqual([
      [128, { software: 4, gpu: 1.3 }, { software: 3, gpu: 1 }],
      [512, undefined, { software: 3, gpu: 1 }],
    ]);
    expect(goals('llama.cpp', 'tiny')).toEqual([
      [128, { software: 5, gpu: null }, { software: 2, gpu: null }],
      [512, undefined, { software: null, gpu: null }],
    ]);
    expect(goals('web-llm', 'qwen2.5-0.5b-q4_0')).toEqual([
      [32, { software: 8, gpu: 1.3 }, { software: null, gpu: null }],
    ]);
    expect(goals('onnxruntime', 'smollm2-135m-q4_0')).toEqual([
      [128, { software: null, gpu: null }, { software: null, gpu: null }],
    ]);
  });

  it('are refused by name when something is missing, with a remedy', () => {
    const options = { quick: true, adapter: undefined, logProgress: () => {} };
    expect(() => readyPeers({ ...options, peers: ['web-llm'] })).toThrow(/--web-llm-lib PATH/);
    expect(() => readyPeers({ ...options, peers: ['web-llm'], webLlmLib: '/none.wasm' })).toThrow(
      "finds no file '/none.wasm'",
    );
  });
});
