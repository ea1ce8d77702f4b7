/** What other tests are made from is there: a file that is lost would take its tests along without a word. */
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { architectures } from '../../src/engine/models/registry.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { fixtureNames } from '../support/fixture-names.ts';

const root = fileURLToPath(new URL('../fixtures/architectures/', import.meta.url));
const has = (path: string) => existsSync(root + path);
const readExpected = (name: string) =>
  JSON.parse(readFileSync(`${root}${name}/expected.json`, 'utf8')) as {
    texts?: unknown[];
    runs: { name?: string; weights: string }[];
  };

describe('the fixtures of architectures', () => {
  it('are these, each with its folder, its conversion and its answers', () => {
    const folders = readdirSync(root).filter((name) => existsSync(`${root}${name}/expected.json`));
    expect(folders.sort()).toEqual([...fixtureNames, 'types'].sort());
    for (const name of fixtureNames) {
      const files = ['model.gguf', 'expected.bin', 'hf/config.json', 'hf/tokenizer.json'];
      const lacking = files.filter((file) => !has(`${name}/${file}`));
      expect({ name, lacking }).toEqual({ name, lacking: [] });
      expect([name, readExpected(name).texts?.length]).toEqual([name, 5]);
      const weights = new Set(readExpected(name).runs.map((run) => run.weights));
      expect([name, [...weights].sort()]).toEqual([name, ['BF16', 'Q4_0', 'Q8_0']]);
    }
    expect(globSync('*/hf-sharded/config.json', { cwd: root }).sort()).toEqual([
      'qwen3/hf-sharded/config.json',
      'qwen3moe/hf-sharded/config.json',
    ]);
    const long = fixtureNames.filter((name) =>
      readExpected(name).runs.some((run) => run.name === 'long factors'),
    );
    expect(long).toEqual(['phi4-mini']);
  });

  it('have files in every type that llama-quantize was asked for', () => {
    const types = ['F32', 'F16', 'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'IQ4_NL', 'MXFP4_MOE'];
    const wide = ['Q2_K', 'Q3_K_S', 'Q4_K_S', 'Q5_K_S', 'Q6_K', 'IQ4_XS', 'Q4_K_M'];
    expect(readExpected('types').runs.map((run) => run.weights)).toEqual([...types, ...wide]);
    for (const type of [...types, ...wide]) expect([type, has(`types/${type}.gguf`)]).toEqual([type, true]);
  });

  it('cover every architecture of the engine', async () => {
    const covered = await Promise.all(
      fixtureNames.map(async (name) => {
        const bytes = new Uint8Array(readFileSync(`${root}${name}/model.gguf`));
        const { metadata } = await openSource(memorySource(bytes));
        return String(metadata.get('general.architecture'));
      }),
    );
    expect([...new Set(covered)].sort()).toEqual(Object.keys(architectures).sort());
  });
});
