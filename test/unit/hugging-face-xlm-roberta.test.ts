/** Folders of XLM-RoBERTa without a head make embeddings, with the tensors that llama.cpp's converter writes. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { kindOf, poolingOf } from '../../src/engine/loading/model-info.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { platforms } from '../support/architectures.ts';
import { rerankerOf } from '../support/rerankers.ts';

const folder = mkdtempSync(join(tmpdir(), 'xlm-roberta-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The names of the class without a head: its pooler, which embeddings ignore, in place of the head. */
function withoutHead(bytes: Buffer): Buffer {
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as Record<string, object>;
  const entries = Object.entries(header).map(
    ([name, value]) => [name.replace(/^roberta\./, '').replace(/^classifier\./, 'pooler.'), value] as const,
  );
  // Padded, so that the tensors stay where they are.
  const text = JSON.stringify(Object.fromEntries(entries)).padEnd(length);
  return Buffer.concat([bytes.subarray(0, 8), Buffer.from(text), bytes.subarray(8 + length)]);
}

test('a folder of XLMRobertaModel embeds, without the positions that are never used', async () => {
  const { path } = rerankerOf('xlm-roberta-reranker');
  cpSync(path('hf'), folder, { recursive: true });
  const weights = join(folder, 'model.safetensors');
  writeFileSync(weights, withoutHead(readFileSync(weights)));
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as object;
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({ ...config, architectures: ['XLMRobertaModel'], id2label: undefined }),
  );
  const kinds = ['Transformer', 'Pooling', 'Normalize'];
  const modules = kinds.map((kind) => ({ type: `sentence_transformers.models.${kind}`, path: kind }));
  writeFileSync(join(folder, 'modules.json'), JSON.stringify(modules));
  mkdirSync(join(folder, 'Pooling'));
  writeFileSync(join(folder, 'Pooling', 'config.json'), JSON.stringify({ pooling_mode_cls_token: true }));

  const open = async (where: string) => openModelFile(await platforms.software.modelFiles(where));
  const [file, converted] = [await open(folder), await open(path('model.gguf'))];
  const graph = await buildGraph(file);
  expect([kindOf(graph), poolingOf(graph), graph.shape.trainedContext]).toEqual(['embed', 'cls', 128]);
  const expected = [...converted.tensors.values()].filter(({ name }) => !name.startsWith('cls'));
  expect([...file.tensors.keys()].toSorted()).toEqual(expected.map(({ name }) => name).toSorted());
  for (const { name, shape } of expected) expect(file.tensors.get(name)?.shape, name).toEqual(shape);
  const positions = await Promise.all(
    [file, converted].map(async (one) => {
      const tensor = one.tensors.get('position_embd.weight');
      if (!tensor) throw new Error('there are no positions');
      return [tensor.type, [...(await one.readRows(tensor, 1, 3))]];
    }),
  );
  expect(positions[0]).toEqual(positions[1]);
  await Promise.all([file.close(), converted.close()]);
});
