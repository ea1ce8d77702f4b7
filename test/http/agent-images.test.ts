/** Tasks whose agent reads an image: what each wire gets of it, what is stored, and models that take none. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openConversationWorld } from '../support/conversation-world.ts';
import { pngOf } from '../support/images.ts';
import type { OpenAiScript, ScriptedAnswer } from '../support/scripted-openai.ts';
import { until } from '../support/until.ts';

type World = Awaited<ReturnType<typeof openConversationWorld>>;
const worlds: World[] = [];
afterEach(async () => {
  await Promise.all(worlds.splice(0).map((world) => world.end()));
});

const png = pngOf(640, 480, 2000);
const base64 = png.toString('base64');
const described = `[shot.png: an image (image/png) of 640 x 480 pixels, ${png.length} bytes]`;
const unseen = `An image of 640 x 480 pixels, ${png.length} bytes; this model takes no images.`;

async function startWorld(script: OpenAiScript, tables = '') {
  const world = await openConversationWorld(script, { tables });
  worlds.push(world);
  writeFileSync(join(world.folder, 'shot.png'), png);
  return world;
}

const look: ScriptedAnswer = { calls: [{ name: 'fs_read', arguments: { path: 'shot.png' } }] };
const textAnswer: ScriptedAnswer = { text: 'A cat.' };
const bodies = (world: World) =>
  world.gateway.requests.map(({ body }) => body as unknown as Readonly<Record<string, unknown>>);
const stored = async (world: World, id: string) =>
  JSON.stringify([await world.events(id), await world.detail(id)]);
const runTask = async (world: World) => {
  const lines = await world.linesOf(await world.task('What is on it?'));
  return { id: 't1', lines };
};

const sse = (events: readonly (readonly [string | undefined, object])[]): ScriptedAnswer => ({
  raw: {
    contentType: 'text/event-stream',
    body: events
      .map(
        ([type, data]) => `${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(data)}\n\n`,
      )
      .join(''),
  },
});
type Event = Readonly<Record<string, unknown>>;
const typed = (events: readonly Event[]) => sse(events.map((event) => [String(event['type']), event]));
const readArgs = JSON.stringify({ path: 'shot.png' });

const anthropic = (reason: string, block: object, delta: object) =>
  typed([
    {
      type: 'message_start',
      message: { id: 'msg_1', role: 'assistant', usage: { input_tokens: 9, output_tokens: 1 } },
    },
    { type: 'content_block_start', index: 0, content_block: block },
    { type: 'content_block_delta', index: 0, delta },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: reason }, usage: { output_tokens: 7 } },
    { type: 'message_stop' },
  ]);
const google = (part: object, reason = 'STOP') =>
  sse([
    [
      undefined,
      {
        candidates: [{ content: { role: 'model', parts: [part] }, finishReason: reason, index: 0 }],
        usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 7 },
      },
    ],
  ]);
const responses = (item: object, events: readonly Event[]) =>
  typed([
    { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', output: [] } },
    ...events,
    {
      type: 'response.completed',
      response: {
        id: 'resp_1',
        status: 'completed',
        output: [item],
        usage: { input_tokens: 9, output_tokens: 7 },
      },
    },
  ]);
const functionCall = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_1',
  name: 'fs_read',
  arguments: readArgs,
  status: 'completed',
};
const message = {
  type: 'message',
  id: 'm_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'A cat.', annotations: [] }],
};

const wires: readonly (readonly [string, readonly ScriptedAnswer[], object])[] = [
  [
    'openai-chat',
    [look, textAnswer],
    {
      messages: [
        { role: 'system' },
        { role: 'user' },
        { role: 'assistant' },
        { role: 'tool', content: described },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Images of the result of call_0:' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${base64}` } },
          ],
        },
      ],
    },
  ],
  [
    'anthropic-messages',
    [
      anthropic(
        'tool_use',
        { type: 'tool_use', id: 'toolu_1', name: 'fs_read', input: {} },
        { type: 'input_json_delta', partial_json: readArgs },
      ),
      anthropic('end_turn', { type: 'text', text: '' }, { type: 'text_delta', text: 'A cat.' }),
    ],
    {
      messages: [
        { role: 'user' },
        { role: 'assistant' },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'toolu_1',
              content: [
                { type: 'text', text: described },
                { type: 'image', source: { type: 'base64', media_type: 'image/png', data: base64 } },
              ],
            },
          ],
        },
      ],
    },
  ],
  [
    'openai-responses',
    [
      responses(functionCall, [
        {
          type: 'response.output_item.added',
          output_index: 0,
          item: { ...functionCall, arguments: '' },
        },
        {
          type: 'response.function_call_arguments.delta',
          output_index: 0,
          item_id: 'fc_1',
          delta: readArgs,
        },
        { type: 'response.output_item.done', output_index: 0, item: functionCall },
      ]),
      responses(message, [
        { type: 'response.output_item.added', output_index: 0, item: { ...message, content: [] } },
        {
          type: 'response.output_text.delta',
          output_index: 0,
          content_index: 0,
          item_id: 'm_1',
          delta: 'A cat.',
        },
        { type: 'response.output_item.done', output_index: 0, item: message },
      ]),
    ],
    {
      input: expect.arrayContaining([
        {
          type: 'function_call_output',
          call_id: 'call_1',
          output: [
            { type: 'input_text', text: described },
            { type: 'input_image', image_url: `data:image/png;base64,${base64}`, detail: 'auto' },
          ],
        },
      ]) as unknown,
    },
  ],
  [
    'google',
    [google({ functionCall: { name: 'fs_read', args: { path: 'shot.png' } } }), google({ text: 'A cat.' })],
    {
      contents: [
        { role: 'user' },
        { role: 'model' },
        {
          role: 'user',
          parts: [
            { functionResponse: { name: 'fs_read', response: { output: described } } },
            { inlineData: { mimeType: 'image/png', data: base64 } },
          ],
        },
      ],
    },
  ],
];

describe.each(wires)('an image that is read, on the wire %s', (wire, answers, expected) => {
  it('is shown to the model once it is read, and stored by its path and size alone', async () => {
    const world = await startWorld(answers, `wire = "${wire}"\n`);
    const { id, lines } = await runTask(world);
    expect(lines.at(-1)).toMatchObject({ type: 'answer', text: 'A cat.' });
    expect(bodies(world)).toHaveLength(2);
    expect(bodies(world)[1]).toMatchObject(expected);
    expect(lines).toContainEqual(
      expect.objectContaining({ type: 'tool_result', ok: true, output: described }),
    );
    expect(await stored(world, id)).not.toContain(base64.slice(0, 60));
  });
});

it('a model that takes no images is told of them in words, from its refusal on', async () => {
  const refusal = { message: 'Invalid content type. image_url is only supported by certain models.' };
  const again = { calls: [{ id: 'again', name: 'fs_read', arguments: { path: 'shot.png' } }] };
  const world = await startWorld([look, { status: 400, error: refusal }, again, textAnswer]);
  const { lines } = await runTask(world);
  expect(lines.at(-1)).toMatchObject({ type: 'answer' });
  // The call, the refusal, the same in words, and the next turn in words at once.
  expect(bodies(world)).toHaveLength(4);
  for (const body of bodies(world).slice(2)) {
    expect(JSON.stringify(body)).not.toContain(base64.slice(0, 60));
    expect(body).toMatchObject({
      messages: expect.arrayContaining([
        expect.objectContaining({ role: 'tool', content: unseen }),
      ]) as unknown,
    });
  }
});

describe('after the host was killed', () => {
  it.each([
    ['an image is read again', true],
    ['a text is in the place of one that was changed', false],
  ])('%s', async (_, isThere) => {
    const world = await startWorld((_request, index) =>
      index === 0 ? look : index === 1 ? { hang: true } : textAnswer,
    );
    const started = await world.call('POST', '/tasks', {
      agent: 'worker',
      cwd: world.folder,
      prompt: 'Look.',
    });
    void started.text().catch(() => undefined);
    await until(() => world.gateway.requests.length === 2);
    await world.kill();
    if (!isThere) writeFileSync(join(world.folder, 'shot.png'), pngOf(1, 1));
    await world.start();
    await until(() => world.gateway.requests.length === 3);
    const sent = JSON.stringify(bodies(world)[2]);
    expect(sent.includes(base64)).toBe(isThere);
    expect(sent.includes('it is not there any more as it was')).toBe(!isThere);
    await until(async () => (await world.detail('t1'))['state'] !== 'running');
  });
});
