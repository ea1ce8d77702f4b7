import OpenAI from 'openai';
import { expect } from 'vitest';
import { z } from 'zod';
import { Access } from '../../../src/planes/access.ts';
import { hashSecret } from '../../../src/signing/secret.ts';
import { llamaError } from '../../../src/wires/llama-cpp/error.ts';
import { hi, json, other, row, type Row } from './row.ts';

/** Tokens, embeddings, rerank, templates, access, and what does not apply. */
export const otherRouteRows: readonly Row[] = [
  row(
    'ctx_shift',
    'without a shift: the answer ends at the end of the context, a longer prompt is refused',
    async ({ completionOf, isRefused }) => {
      const script = { contextLength: 20, answer: () => Array<string>(50).fill('x') };
      const answer = await completionOf({ prompt: 'abcd', n_predict: -1 }, script);
      expect(answer).toMatchObject({ tokens_predicted: 16, stop_type: 'limit' });
      await isRefused('/completion', { prompt: 'a'.repeat(30) }, script);
    },
  ),
  other('ctx_shift', '`--context-shift`', 'contexts are not shifted'),
  row('ignore_eos', 'bans the end tokens, and the settings say so', async ({ completionOf }) => {
    const settingsOf = async (ignore_eos: boolean) => {
      const { generation_settings } = await completionOf({ prompt: 'a', ignore_eos });
      return generation_settings?.logit_bias;
    };
    expect(await settingsOf(true)).toEqual([257, 258].map((token) => ({ token, bias: null })));
    expect(await settingsOf(false)).toEqual([]);
  }),
  row('tokenize', 'round trip; BOS on request; ids with their text or bytes', async ({ serve }) => {
    const content = 'unicode 媽 🤗';
    const { post } = await serve({ bosId: 256 });
    const of = async (path: string, body: object) => json.parse(await (await post(path, body)).json());
    const { tokens } = await of('/tokenize', { content });
    expect(await of('/detokenize', { tokens })).toEqual({ content });
    expect((await of('/tokenize', { content, add_special: true }))['tokens']).toEqual([
      256,
      ...(tokens as number[]),
    ]);
    const pieces = z.array(z.object({ id: z.int(), piece: z.union([z.string().min(1), z.array(z.int())]) }));
    expect(pieces.parse((await of('/tokenize', { content, with_pieces: true }))['tokens'])).toHaveLength(16);
  }),
  row('infill', 'with and without other files; malformed files are refused', async ({ ask, isRefused }) => {
    const around = { input_prefix: 'int main() {\n', prompt: '  int n = ', input_suffix: '}\n' };
    const script = { fim: true };
    for (const more of [{}, { input_extra: [{ filename: 'a.h', text: 'int f();\n' }] }])
      expect((await ask('/infill', { ...around, ...more }, script)).status).toBe(200);
    for (const extra of [{}, { filename: 'ok' }, { filename: 123 }, { filename: 123, text: 'abc' }])
      await isRefused('/infill', { ...around, input_extra: [extra] }, script);
  }),
  row(
    'embedding',
    'one or several texts or lists of ids; vectors of unit length; usage; base64 of the same numbers',
    async ({ serve }) => {
      const { post } = await serve({ embeds: 4 });
      const embed = async (body: object) => {
        const answer = await (await post('/v1/embeddings', body)).json();
        const data = z.array(z.object({ embedding: z.union([z.string(), z.array(z.number())]) }));
        return z.object({ data, usage: json }).parse(answer);
      };
      for (const [input, tokens] of [
        ['abc', [3]],
        [[12, 34, 56], [3]],
        [
          ['abc', 'abc'],
          [3, 3],
        ],
        [
          [[12, 34], [56]],
          [2, 1],
        ],
      ] as const) {
        const total = tokens.reduce((sum, count) => sum + count, 0);
        const { data, usage } = await embed({ input });
        expect(usage).toEqual({ prompt_tokens: total, total_tokens: total });
        expect(data).toHaveLength(tokens.length);
        for (const { embedding } of data) expect(Math.hypot(...(embedding as number[]))).toBeCloseTo(1, 5);
      }
      const numbers = (await embed({ input: ['abc', 'abc'] })).data.map(
        ({ embedding }) => embedding as number[],
      );
      expect(numbers[0]).toEqual(numbers[1]);
      const [encoded] = (await embed({ input: 'abc', encoding_format: 'base64' })).data;
      const bytes = Uint8Array.from(Buffer.from(String(encoded?.embedding), 'base64'));
      expect([...new Float32Array(bytes.buffer)]).toEqual(numbers[0]?.map(Math.fround));
    },
  ),
  row(
    'embedding',
    "OpenAI's client; no input, and one that is too long, are refused",
    async ({ isRefused, clientAt }) => {
      const openai = await clientAt({ embeds: 4 });
      const { data } = await openai.embeddings.create({ model: 'scripted', input: ['a', 'b'] });
      expect(data.map(({ embedding }) => embedding.length)).toEqual([4, 4]);
      for (const input of [[], 'x'.repeat(200), { content: 'a' }])
        await isRefused('/v1/embeddings', { input }, { embeds: 4, contextLength: 100 });
    },
  ),
  other(
    'embedding',
    'texts and ids in one input, `{prompt_string}`, `{content}`, an empty text',
    "refused: the forms are OpenAI's",
  ),
  other('embedding', '`--pooling none`', 'pooling is that of the model'),
  row(
    'rerank',
    'results for documents, and for `texts` as Text Embeddings Inference has them; `top_n`; usage',
    async ({ serve }) => {
      const documents = ['x!', 'fox', 'bird'];
      const { post } = await serve({ ranks: true });
      const rank = async (body: object): Promise<unknown> =>
        (await post('/rerank', { query: 'fox', ...body })).json();
      const whole = z
        .object({ results: z.array(z.object({ index: z.int() })), usage: z.record(z.string(), z.int()) })
        .parse(await rank({ documents }));
      expect(whole.results.map(({ index }) => index)).toEqual([1, 0, 2]);
      expect(whole.usage['prompt_tokens']).toBe(whole.usage['total_tokens']);
      expect(await rank({ texts: documents })).toMatchObject([{ index: 1 }, { index: 0 }, { index: 2 }]);
      for (const [top_n, count] of [
        [2, 2],
        [99, 3],
      ]) {
        expect(await rank({ texts: documents, top_n })).toHaveLength(count as number);
        expect(json.parse(await rank({ documents, top_n }))['results']).toHaveLength(count as number);
      }
    },
  ),
  row(
    'rerank',
    'malformed documents are refused; so are embeddings of such a model',
    async ({ ask, isRefused }) => {
      for (const documents of [[], null, 123, [1, 2, 3]])
        await isRefused('/rerank', { query: 'fox', documents }, { ranks: true });
      for (const path of ['/embeddings', '/v1/embeddings']) {
        const { status, body } = await ask(path, { input: 'hello' }, { ranks: true });
        expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining('rerank')]);
      }
    },
  ),
  row(
    'security',
    'beyond loopback: health is public, all else needs the key, as bearer or `X-Api-Key`',
    async ({ serve }) => {
      const access = new Access({ bind: 'lan', bearerHash: hashSecret('secret'), operatorHash: undefined });
      const { get, post, url } = await serve({}, 'ready', undefined, [], { access });
      expect((await get('/health')).status).toBe(200);
      const complete = (headers: Record<string, string>) =>
        post(
          '/completions',
          { prompt: 'a' },
          { headers: { 'content-type': 'application/json', ...headers } },
        );
      for (const headers of [{}, { authorization: 'Bearer wrong' }]) {
        const refused = await complete(headers);
        expect(refused.status).toBe(401);
        expect(llamaError.parse(await refused.json()).error.type).toBe('authentication_error');
      }
      for (const headers of [{ authorization: 'Bearer secret' }, { 'x-api-key': 'secret' }])
        expect((await complete(headers)).status).toBe(200);
      const openai = new OpenAI({ baseURL: url, apiKey: 'secret', maxRetries: 0 });
      const answer = await openai.chat.completions.create({
        model: 'scripted',
        messages: [{ role: 'user', content: 'hi' }],
      });
      expect(answer.choices).toHaveLength(1);
    },
  ),
  other('security', '`/models` without a key', 'needs the key'),
  other('security', 'CORS for every origin', 'for the origins of `--allowed-origin` (access.md)'),
  other('security', 'local files as images', 'no model reads images'),
  row(
    'template',
    'the prompt without the beginning of an answer: `add_generation_prompt: false`',
    async ({ ask }) => {
      expect((await ask('/apply-template', { messages: hi, add_generation_prompt: false })).body).toEqual({
        prompt: '<|im_start|>user\nhi<|im_end|>\n',
      });
    },
  ),
  other(
    'template',
    'reasoning on and off, dates, tools in templates of published models',
    '`test/unit/chat-template.test.ts` and its fixtures',
  ),
  other('template', '`--system-message-prefix`', 'no such option'),
  other(
    'tool_call',
    'calls of published models',
    '`test/unit/chat-round-trips.test.ts`; the table above with the embedded model',
  ),
  other('speculative', 'drafts', '`--draft` (serving.md), with tests of its own'),
  other(
    'slot_save, lora, sleep, router',
    'slots in files, adapters, sleeping, several servers behind one',
    'not served; `--resident` and `--swap` load further models',
  ),
  other('vision_api', 'images', 'refused in words'),
  other(
    'server_tools, mcp_servers, proxy, stream, compat_gcp',
    "tools and proxies of llama.cpp's pages, resumable streams, Google's `/predict`",
    'not served',
  ),
];
