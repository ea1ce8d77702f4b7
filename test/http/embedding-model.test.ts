/** The model for embeddings beside the resident one: which requests it answers, and where it is listed. */
import { afterEach, describe, expect, test } from 'vitest';
import { psAnswer, tagsAnswer } from '../../src/planes/ollama/model-schema.ts';
import { substrateInfo } from '../../src/planes/host/schema.ts';
import { modelList } from '../../src/wires/core/models-schema.ts';
import { type Swapping, swappingHost } from '../support/swapping-host.ts';

type Host = Awaited<ReturnType<typeof swappingHost>>;
const hosts: Host[] = [];
async function serve(options: Partial<Swapping> = {}): Promise<Host> {
  const host = await swappingHost({
    models: { a: {}, b: {}, e: { embeds: 5 }, f: { embeds: 3 } },
    embeddingModel: 'e',
    ...options,
  });
  hosts.push(host);
  return host;
}
afterEach(async () => {
  for (const host of hosts.splice(0)) {
    expect(host.faults).toEqual([]);
    await host.close();
  }
});

const messages = [{ role: 'user', content: 'hi' }];
/** The elements of a text's vector, by each route for embeddings. */
async function elements({ post }: Host, model: string | undefined): Promise<number[]> {
  const named = model === undefined ? {} : { model };
  const [openai, llamaCpp] = [
    (await (await post('/v1/embeddings', { ...named, input: 'x' })).json()) as {
      data: { embedding: number[] }[];
    },
    (await (await post('/embedding', { ...named, content: 'x' })).json()) as { embedding: number[][] }[],
  ];
  const counts = [openai.data[0]?.embedding.length, llamaCpp[0]?.embedding[0]?.length];
  if (model !== undefined) {
    const many = (await (await post('/api/embed', { ...named, input: 'x' })).json()) as {
      embeddings: number[][];
    };
    const one = (await (await post('/api/embeddings', { ...named, prompt: 'x' })).json()) as {
      embedding: number[];
    };
    counts.push(many.embeddings[0]?.length, one.embedding.length);
  }
  return counts.map((count) => count ?? -1);
}

describe.each([true, false])('an embedding model (swap: %s)', (swap) => {
  test('embeds where a request names it or no model; the resident model where a request names that', async () => {
    const host = await serve({ swap });
    expect(await elements(host, undefined)).toEqual([5, 5]);
    for (const name of ['e', 'e-id', 'e-id:latest'])
      expect([name, ...(await elements(host, name))]).toEqual([name, 5, 5, 5, 5]);
    expect(await elements(host, 'a')).toEqual([8, 8, 8, 8]);
    expect(host.loads).toEqual([]);
    const answer = await (await host.post('/v1/embeddings', { input: 'x' })).json();
    expect(answer).toMatchObject({ model: 'e-id' });
    expect(host.ended.at(-1)?.attributes).toMatchObject({ model: 'e-id' });
  });

  test('generates nothing, and requests without a model generate with the resident one', async () => {
    const { post, loads } = await serve({ swap });
    const refused = await post('/v1/chat/completions', { model: 'e', messages });
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      {
        error: {
          code: 'unsupported_capability',
          message: expect.stringContaining("'e-id' makes embeddings"),
        },
      },
    ]);
    expect((await post('/api/chat', { model: 'e', messages })).status).toBe(400);
    const answered = await post('/v1/chat/completions', { messages });
    expect([answered.status, await answered.json()]).toMatchObject([200, { model: 'a' }]);
    expect(loads).toEqual([]);
  });

  test('is listed with its memory on every wire, after the resident model', async () => {
    const { get, post } = await serve({ swap });
    const list = modelList.parse(await (await get('/v1/models')).json());
    expect(list.data.slice(0, 2)).toMatchObject([
      { id: 'a', embedding_dimensions: 8, pooling: 'last', memory_bytes: 4096 },
      { id: 'e-id', embedding_dimensions: 5, pooling: 'mean', memory_bytes: 4096 },
    ]);
    for (const name of ['e', 'e-id'])
      expect(await (await get(`/v1/models/${name}`)).json()).toMatchObject({
        id: name,
        embedding_dimensions: 5,
      });
    const { models } = psAnswer.strict().parse(await (await get('/api/ps')).json());
    expect(models).toMatchObject([
      { name: 'a:latest', size: 4096, size_vram: 4096 },
      { name: 'e-id:latest', size: 4096, size_vram: 4096 },
    ]);
    const tags = tagsAnswer.parse(await (await get('/api/tags')).json());
    expect(tags.models.map(({ name }) => name).slice(0, 2)).toEqual(['a:latest', 'e-id:latest']);
    const info = substrateInfo.strict().parse(await (await get('/host/v1/info')).json());
    expect(info).toMatchObject({
      model: { id: 'a', memory_bytes: 4096 },
      embedding_model: { id: 'e-id', memory_bytes: 4096 },
    });
    expect((await post('/api/show', { model: 'absent' })).status).toBe(404);
  });

  test('counts its device losses with those of the resident model', async () => {
    const { get, embedder, engines } = await serve({ swap });
    for (const [engine, deviceLosses] of [
      [embedder, 2],
      [engines[0], 1],
    ] as const) {
      const stats = engine?.stats();
      if (engine && stats) engine.stats = () => ({ ...stats, deviceLosses });
    }
    expect(await (await get('/host/v1/telemetry')).json()).toMatchObject({ device_losses: 3 });
  });
});

test('with --swap, it stays while models change, and other embedding models are loaded as before', async () => {
  const host = await serve();
  await host.post('/api/chat', { model: 'b', messages, stream: false });
  expect(await elements(host, undefined)).toEqual([5, 5]);
  expect(await elements(host, 'f')).toEqual([3, 3, 3, 3]);
  expect(host.loads).toEqual(['/b', '/f']);
  expect(await elements(host, 'e')).toEqual([5, 5, 5, 5]);
  expect(host.embedder?.closed).toBe(false);
  expect(host.loads).toEqual(['/b', '/f']);
});

test('it embeds while another model is being loaded', async () => {
  const held = Promise.withResolvers<void>();
  const host = await serve({ hold: (location) => (location === '/b' ? held.promise : undefined) });
  const answer = host.post('/api/chat', { model: 'b', messages, stream: false });
  await expect.poll(() => host.loads).toEqual(['/b']);
  expect(await elements(host, undefined)).toEqual([5, 5]);
  held.resolve();
  expect((await answer).status).toBe(200);
});
