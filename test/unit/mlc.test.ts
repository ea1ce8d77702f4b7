import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Template } from '@huggingface/jinja';
import { describe, expect, it } from 'vitest';
import { dequantizeRows } from '../../kernels/reference/index.ts';
import { openGguf } from '../../src/engine/formats/gguf.ts';
import { createConversationTemplate } from '../../src/engine/formats/mlc/conversation-template.ts';
import { ModelFileError, type ModelFile } from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { rowsOf } from '../../src/engine/formats/rows.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { filesOf, memoryFiles, memorySource } from '../support/byte-source.ts';
import { folderContents } from '../support/folder-contents.ts';
import { mlcFolder, type MlcQuantization, mlcRoundTrip } from '../support/mlc-writer.ts';
import { referenceForward } from '../support/reference-model.ts';
import { describeShared, sharedPath } from '../support/shared.ts';

const root = fileURLToPath(new URL('../fixtures/architectures/', import.meta.url));
const families = ['llama', 'mistral', 'qwen2', 'qwen3', 'phi3', 'gemma3'];
const quantizations: MlcQuantization[] = ['q4f16_1', 'q4f32_1', 'q3f16_1', 'q0f16', 'q0f32'];
const faceOf = (name: string): Record<string, Uint8Array> => {
  const below = Object.entries(folderContents(`${root}${name}`)).filter(([path]) => path.startsWith('hf/'));
  return Object.fromEntries(below.map(([path, bytes]) => [path.slice(3), bytes]));
};
const converted = (name: string) =>
  openGguf(memoryFiles({ 'model.gguf': readFileSync(`${root}${name}/model.gguf`) }), 'model.gguf');

/** All values, read in pieces of an odd number of rows. */
const valuesOf = async (file: ModelFile, name: string): Promise<Float32Array> => {
  const tensor = file.tensors.get(name);
  if (!tensor) throw new Error(`${file.name} has no ${name}`);
  const columns = tensor.shape.at(-1) ?? 0;
  const values = new Float32Array(rowsOf(tensor) * columns);
  for (let row = 0; row < rowsOf(tensor); row += 5) {
    const rows = Math.min(5, rowsOf(tensor) - row);
    const bytes = await file.readRows(tensor, row, rows);
    expect(bytes.length).toBe((rows * tensor.sizeBytes) / rowsOf(tensor));
    values.set(dequantizeRows(tensor.type, bytes, { rows, columns }), row * columns);
  }
  return values;
};
const numbersOf = ({ metadata }: ModelFile) => {
  const architecture = String(metadata.get('general.architecture'));
  return Object.fromEntries([...metadata].filter(([key]) => key.startsWith(`${architecture}.`)));
};

describe.each(families)('an MLC folder of %s', (name) => {
  it.each(quantizations)(
    'in %s has the tensors of its GGUF conversion, with the values that the quantization keeps',
    async (quantization) => {
      for (const cutFloats of [true, false]) {
        const writing = { quantization, cutFloats };
        const own = await openModelFile(memoryFiles(mlcFolder(faceOf(name), writing)));
        const gguf = await converted(name);
        expect(own.format).toBe('mlc');
        const shapes = (file: ModelFile) =>
          Object.fromEntries([...file.tensors.values()].map((tensor) => [tensor.name, tensor.shape]));
        expect(shapes(own)).toEqual(shapes(gguf));
        for (const [tensor, { shape }] of gguf.tensors) {
          const columns = shape.at(-1) ?? 0;
          const exact = await valuesOf(gguf, tensor);
          const plain = quantization.endsWith('f32_1') || quantization === 'q0f32' ? 'q0f32' : 'q0f16';
          const how = shape.length === 2 ? writing : { ...writing, quantization: plain as MlcQuantization };
          const wanted = new Float32Array(exact.length);
          for (let at = 0; at < exact.length; at += columns)
            wanted.set(mlcRoundTrip(exact.subarray(at, at + columns), how), at);
          // Computed from the configuration, not stored.
          const expected = tensor.startsWith('rope_') ? exact : wanted;
          const found = await valuesOf(own, tensor);
          const wrong = found.findIndex((value, at) => value !== expected[at]);
          expect({ tensor, wrong, found: found[wrong], expected: expected[wrong] }).toEqual({
            tensor,
            wrong: -1,
          });
        }
        expect((await buildGraph(own)).shape).toEqual((await buildGraph(gguf)).shape);
      }
    },
  );

  it('has the hyperparameters and the vocabulary of its GGUF conversion', async () => {
    const own = await openModelFile(memoryFiles(mlcFolder(faceOf(name), { quantization: 'q4f16_1' })));
    const face = await openModelFile(memoryFiles(faceOf(name)));
    expect(numbersOf(own)).toEqual(numbersOf(await converted(name)));
    for (const key of [
      'tokens',
      'token_type',
      'bos_token_id',
      'eos_token_id',
      'add_bos_token',
      'merges',
      'pre',
    ])
      expect([key, own.metadata.get(`tokenizer.ggml.${key}`)]).toEqual([
        key,
        face.metadata.get(`tokenizer.ggml.${key}`),
      ]);
    expect(own.metadata.get('tokenizer.chat_template')).toEqual(face.metadata.get('tokenizer.chat_template'));
  });
});

describe('an MLC folder', () => {
  const good = () => mlcFolder(faceOf('qwen2'), { quantization: 'q4f16_1' });
  // oxlint-disable-next-line typescript/no-explicit-any -- what a manifest holds, to be broken at will
  type Change = (value: any) => void;
  const json = (contents: Record<string, Uint8Array>, name: string, change: Change) => {
    const value: unknown = JSON.parse(new TextDecoder().decode(contents[name]));
    change(value);
    return { ...contents, [name]: new TextEncoder().encode(JSON.stringify(value)) };
  };
  const refusal = async (contents: Record<string, Uint8Array>) => {
    const sources = Object.fromEntries(
      Object.entries(contents).map(([name, bytes]) => [name, memorySource(bytes, name)]),
    );
    const error = await openModelFile(filesOf(sources)).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof ModelFileError)) throw new Error(`not refused as a file: ${String(error)}`);
    for (const source of Object.values(sources)) expect(source.closed || source.bytesRead === 0).toBe(true);
    return `${error.code}: ${error.message}`;
  };

  it('gives the logits of a GGUF with the same weights', async () => {
    const own = await openModelFile(memoryFiles(mlcFolder(faceOf('qwen2'), { quantization: 'q0f32' })));
    const ids = [3, 200, 17, 5];
    const [found, expected] = [
      await referenceForward(own, ids),
      await referenceForward(await converted('qwen2'), ids),
    ];
    found.forEach((logits, at) => {
      const wrong = logits.findIndex((value, token) => Math.abs(value - (expected[at]?.[token] ?? 0)) > 1e-4);
      expect(wrong).toBe(-1);
    });
  });

  it('uses the sliding window of its configuration, not the default of the family', async () => {
    const windows = async (size: number) => {
      const change: Change = (chat) => {
        chat.sliding_window_size = size;
        chat.model_config.context_window_size = 32_768;
        delete chat.model_config.max_position_embeddings;
      };
      const folder = mlcFolder(faceOf('mistral'), { quantization: 'q4f16_1', change });
      const { units } = await buildGraph(await openModelFile(memoryFiles(folder)));
      return units.flatMap((unit) => (unit.op === 'attention' ? [unit.window] : []));
    };
    expect(await windows(24)).toEqual([24]);
    expect(await windows(-1)).toEqual([0]);
  });

  it('is also read with the older file name of the shard list', async () => {
    const { 'tensor-cache.json': cache, ...rest } = good();
    const file = await openModelFile(
      memoryFiles({ ...rest, 'ndarray-cache.json': cache ?? new Uint8Array() }),
    );
    expect(file.tensors.get('blk.1.ffn_gate.weight')).toMatchObject({ type: 'Q4_0', shape: [64, 64] });
  });

  it('is rejected when shards are missing or have another size, naming all of them', async () => {
    const { 'params_shard_1.bin': _, 'params_shard_3.bin': __, ...less } = good();
    expect(await refusal(less)).toMatch(
      /^not_found: .*2 of \d+ shards are missing: params_shard_1\.bin, params_shard_3\.bin/,
    );
    const short = {
      ...good(),
      'params_shard_0.bin': new Uint8Array(7),
      'params_shard_2.bin': new Uint8Array(9),
    };
    expect(await refusal(short)).toMatch(
      /^truncated: .*shard_0\.bin has 7 bytes, expected \d+; params_shard_2\.bin has 9/,
    );
    const { 'tensor-cache.json': ___, ...none } = good();
    expect(await refusal(none)).toMatch(/^not_found: .*tensor-cache\.json or ndarray-cache\.json/);
  });

  it('is rejected when its shard list is wrong', async () => {
    const record = (change: (one: Record<string, unknown>) => void) =>
      json(good(), 'tensor-cache.json', (cache) => change(cache.records[1].records[0]));
    expect(await refusal(record((one) => (one['nbytes'] = 4)))).toMatch(
      /^corrupt: .*has 4 bytes, but its shape needs/,
    );
    expect(await refusal(record((one) => (one['byteOffset'] = 1e9)))).toMatch(/does not fit into its shard/);
    expect(await refusal(record((one) => (one['shape'] = [-1, 2])))).toMatch(/has no shape/);
    expect(await refusal(record((one) => (one['dtype'] = 'int8')))).toMatch(
      /unknown type int8 in the format f32-to-bf16/,
    );
    expect(await refusal(record((one) => (one['name'] = 7)))).toMatch(/an array without a name/);
    expect(await refusal(record((one) => (one['name'] = 'model.norm.weight')))).toMatch(
      /occurs twice|no quants/,
    );
    expect(
      await refusal(json(good(), 'tensor-cache.json', (cache) => (cache.records[0].dataPath = '../x'))),
    ).toMatch(/is not the name of a file/);
    expect(await refusal(json(good(), 'tensor-cache.json', (cache) => (cache.records = [])))).toMatch(
      /lists no shards/,
    );
    expect(await refusal({ ...good(), 'tensor-cache.json': new TextEncoder().encode('{') })).toMatch(
      /^corrupt: .*not JSON/,
    );
  });

  it('is rejected when its weights do not match its configuration', async () => {
    const config = (change: Change) => json(good(), 'mlc-chat-config.json', change);
    expect(await refusal(config((one) => (one.model_config.intermediate_size = 96)))).toMatch(
      /^bad_tensors: /,
    );
    expect(await refusal(config((one) => (one.model_config.num_key_value_heads = 1)))).toMatch(
      /^bad_tensors: .*c_attn' has 128 rows/,
    );
    expect(await refusal(config((one) => (one.model_config.num_hidden_layers = 1)))).toMatch(
      /^unsupported_tensors: .*layers\.1/,
    );
    expect(await refusal(config((one) => (one.model_config.tie_word_embeddings = false)))).toMatch(
      /no tensor 'lm_head'/,
    );
    expect(await refusal(config((one) => (one.quantization = 'q4f16_0')))).toMatch(
      /^unsupported_type: .*q4f16_0.*q4f16_1/,
    );
    expect(await refusal(config((one) => (one.quantization = 'q0f16')))).toMatch(
      /is quantized, but the quantization is q0f16/,
    );
    expect(await refusal(config((one) => (one.model_type = 'rwkv')))).toMatch(
      /^unsupported_architecture: .*rwkv/,
    );
    expect(await refusal(config((one) => delete one.model_config))).toMatch(/^corrupt: .*model_config/);
    expect(await refusal(config((one) => delete one.model_config.hidden_size))).toMatch(
      /^bad_config: .*hidden_size/,
    );
    const { 'tokenizer.json': _, ...untold } = good();
    expect(await refusal(untold)).toMatch(/^not_found: .*tokenizer\.json/);
  });

  it('fails to read rows with quants that MLC never writes', async () => {
    const contents = good();
    const file = await openModelFile(
      memoryFiles(
        Object.fromEntries(
          Object.entries(contents).map(([name, bytes]) => [
            name,
            /shard/.test(name) ? bytes.map(() => 0xff) : bytes,
          ]),
        ),
      ),
    );
    const tensor = file.tensors.get('blk.0.attn_q.weight');
    await expect(tensor && file.readRows(tensor, 0, 1)).rejects.toMatchObject({ code: 'corrupt' });
    await expect(tensor && file.readRows(tensor, 60, 5)).rejects.toThrow(RangeError);
  });

  it('says when it has no chat template', async () => {
    const { 'tokenizer_config.json': _, ...contents } = good();
    const file = await openModelFile(memoryFiles(contents));
    expect(file.metadata.has('tokenizer.chat_template')).toBe(false);
    expect(file.notes?.join()).toMatch(/no chat template: neither tokenizer_config\.json nor conv_template/);
  });
});

describe('a conversation of MLC', () => {
  const chatml = {
    system_template: '<|im_start|>system\n{system_message}<|im_end|>\n',
    system_message: 'You\'re "it" \\ here.',
    add_role_after_system_message: true,
    roles: { user: '<|im_start|>user', assistant: '<|im_start|>assistant' },
    role_templates: { user: '{user_message}', assistant: '{assistant_message}' },
    seps: ['<|im_end|>\n'],
    role_content_sep: '\n',
    role_empty_sep: '\n',
  };
  const render = (conversation: unknown, messages: object[], bosId?: number) =>
    new Template(createConversationTemplate(conversation, bosId) ?? '').render({
      messages,
      add_generation_prompt: true,
      bos_token: '<s>',
    });
  const chat = [
    { role: 'user', content: 'hi\n there' },
    { role: 'assistant', content: 'yo' },
    { role: 'user', content: 'bye' },
  ];

  it('is rendered as by MLC, with the default system message or the given one', () => {
    const rest =
      '<|im_start|>user\nhi\n there<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n';
    expect(render(chatml, chat)).toBe(`<|im_start|>system\nYou're "it" \\ here.<|im_end|>\n${rest}`);
    expect(render(chatml, [{ role: 'system', content: 'S' }, ...chat])).toBe(
      `<|im_start|>system\nS<|im_end|>\n${rest}`,
    );
  });

  it('starts with its prefix token, has a separate end of answers, and may omit the first role name', () => {
    const llama2 = {
      system_template: '[INST] <<SYS>>\n{system_message}\n<</SYS>>\n\n',
      system_message: 'S',
      system_prefix_token_ids: [1],
      add_role_after_system_message: false,
      roles: { user: '<s>[INST]', assistant: '[/INST]', tool: '[INST]' },
      seps: [' ', ' </s>'],
      role_content_sep: ' ',
      role_empty_sep: ' ',
    };
    expect(render(llama2, chat, 1)).toBe(
      '<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nhi\n there [/INST] yo </s><s>[INST] bye [/INST] ',
    );
    expect(() => render(llama2, [{ role: 'judge', content: 'x' }], 1)).toThrow(/no role judge/);
  });

  it('has no template when it is only a name', () => {
    expect(createConversationTemplate('llama-2', 1)).toBeUndefined();
    expect(createConversationTemplate({ roles: {} }, 1)).toBeUndefined();
  });
});

const real = ['ReaderLM-v2-q4f16_1', 'qwen2.5-med-q4f16_1', 'phi-3-mini-128k'];
describeShared(
  'a real list of shards',
  real.map((name) => `data/mlc/${name}`),
  (...folders) => {
    it.each(folders)(
      '%s is mapped completely: every array is used, and every tensor of the graph exists',
      async (folder) => {
        const contents = folderContents(folder);
        const cacheName = contents['tensor-cache.json'] ? 'tensor-cache.json' : 'ndarray-cache.json';
        const { records } = JSON.parse(new TextDecoder().decode(contents[cacheName])) as {
          records: { dataPath: string; nbytes: number; records: { name: string; nbytes: number }[] }[];
        };
        const hole = (name: string, sizeBytes: number) => ({
          ...memorySource(new Uint8Array(0), name),
          sizeBytes,
        });
        const sources = Object.fromEntries([
          ...Object.entries(contents).map(([name, bytes]) => [name, memorySource(bytes, name)]),
          ...records.map(({ dataPath, nbytes }) => [dataPath, hole(dataPath, nbytes)]),
          [
            'tokenizer.json',
            memorySource(readFileSync(sharedPath('model/tokenizer.json') ?? ''), 'tokenizer.json'),
          ],
        ]) as Record<string, ReturnType<typeof memorySource>>;
        const file = await openModelFile(filesOf(sources));
        const graph = await buildGraph(file);
        expect(graph.shape.layers).toBeGreaterThan(20);
        const names = records.flatMap((shard) => shard.records);
        const bytes = names.reduce((sum, { nbytes }) => sum + nbytes, 0);
        // Blocks take what quants and scales took; vectors of f16 become f32.
        const vectors = [...file.tensors.values()].filter(({ shape }) => shape.length === 1);
        const presented = [...file.tensors.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
        expect(presented - vectors.reduce((sum, { sizeBytes }) => sum + sizeBytes / 2, 0)).toBe(bytes);
        expect(new Set([...file.tensors.values()].map(({ type }) => type))).toEqual(new Set(['Q4_0', 'F32']));
      },
    );
  },
);
