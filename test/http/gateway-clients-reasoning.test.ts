import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Clients, clientsOf, weather } from '../support/gateway/clients.ts';
import type { ProviderReply, ProviderRequest } from '../support/gateway/provider.ts';
import { type Customer, gatewayWorld } from '../support/gateway/world.ts';

/** Loops over tools with models that think, as developers write them: what the client gave is handed back as it is. */

let world: Awaited<ReturnType<typeof gatewayWorld>>;
let customer: Customer;
let clients: Clients;

beforeAll(async () => {
  world = await gatewayWorld();
  customer = await world.customer();
  clients = clientsOf(world.url, customer);
  world.provider.script(thinking);
});
afterEach(() => clients.verify());
afterAll(async () => {
  const wrong = [...(await world.witness.faults()), ...world.faults];
  await world.close();
  expect(wrong).toEqual([]);
});

/** Encrypted reasoning that differs per provider and contains characters special to base64 and JSON. */
const encryptedReasoningOf = (model: string): string => `Eq+/${model.replace('upstream-', '')}+seal==`;
const thought = 'Oslo it is. Let me look.';
let calls = 0;
let text = 'Looking.';

/** Every answer thinks, and calls a tool. */
const thinking = ({ model }: ProviderRequest): ProviderReply => ({
  say: {
    reasoning: thought,
    signature: encryptedReasoningOf(model),
    text,
    calls: [{ id: `call_${calls++}`, name: 'weather', arguments: { city: 'Oslo' } }],
    piece: 5,
  },
});

const models = ['chat', 'copy', 'responses', 'claude', 'gemini', 'host'] as const;
const sealing = ['responses', 'claude', 'gemini'] as const;

const lastRequest = () => world.provider.requests.at(-1) as ProviderRequest;
/** Models whose encrypted reasoning the last request contains, at any place. */
const modelsWithReasoningSent = (): string[] =>
  models.filter((model) => lastRequest().text.includes(encryptedReasoningOf(model)));
const turns = (member: string) => lastRequest().body[member] as Record<string, unknown>[];

/** The first answer as the provider got it back. */
function expectReturned(model: (typeof sealing)[number]): void {
  if (model === 'claude')
    expect(turns('messages')[1]?.['content']).toEqual([
      { type: 'thinking', thinking: thought, signature: encryptedReasoningOf(model) },
      { type: 'text', text: 'Looking.' },
      expect.objectContaining({ type: 'tool_use', input: { city: 'Oslo' } }),
    ]);
  if (model === 'responses')
    expect(turns('input')[1]).toMatchObject({
      type: 'reasoning',
      id: 'rs_1',
      summary: [{ type: 'summary_text', text: thought }],
      encrypted_content: encryptedReasoningOf(model),
    });
  if (model === 'gemini')
    expect(turns('contents')[1]?.['parts']).toEqual([
      { text: 'Looking.', thoughtSignature: encryptedReasoningOf(model) },
      { functionCall: expect.objectContaining({ name: 'weather', args: { city: 'Oslo' } }) as unknown },
    ]);
}

type Turn<T> = (model: string, history: readonly T[]) => Promise<T[]>;
type Message = OpenAI.ChatCompletionMessageParam;
type Item = OpenAI.Responses.ResponseInputItem;

const chat = { tools: [weather()], max_tokens: 4000, reasoning_effort: 'medium' as const };
const answered = (message: OpenAI.ChatCompletionMessage): Message[] => [
  message,
  ...(message.tool_calls ?? []).map(({ id }) => ({
    role: 'tool' as const,
    tool_call_id: id,
    content: '3 degrees',
  })),
];
const chatTurns = (openai: () => OpenAI): [string, Turn<Message>][] => [
  [
    'whole',
    async (model, messages) => {
      const { choices } = await openai().chat.completions.create({ ...chat, model, messages: [...messages] });
      return answered(choices[0]?.message as OpenAI.ChatCompletionMessage);
    },
  ],
  [
    "added up by the client's helper",
    async (model, messages) => {
      const stream = openai().chat.completions.stream({ ...chat, model, messages: [...messages] });
      return answered((await stream.finalChatCompletion()).choices[0]?.message as never);
    },
  ],
  [
    'added up by hand',
    async (model, messages) => {
      const ask = { ...chat, model, messages: [...messages], stream: true as const };
      return answered(await addedUp(await openai().chat.completions.create(ask)));
    },
  ],
];

/** As developers do it: texts put together, lists too, calls by their index. */
async function addedUp(
  chunks: AsyncIterable<OpenAI.ChatCompletionChunk>,
): Promise<OpenAI.ChatCompletionMessage> {
  const message: Record<string, unknown> = {};
  const made: Record<string, unknown>[] = [];
  for await (const { choices } of chunks)
    for (const [name, value] of Object.entries(choices[0]?.delta ?? {})) {
      const before = message[name];
      if (name === 'tool_calls')
        for (const {
          index,
          function: called,
          ...rest
        } of value as OpenAI.ChatCompletionChunk.Choice.Delta.ToolCall[]) {
          const call = (made[index] ??= { function: { name: '', arguments: '' } });
          Object.assign(call, rest);
          const whole = call['function'] as { name: string; arguments: string };
          whole.name += called?.name ?? '';
          whole.arguments += called?.arguments ?? '';
        }
      else if (Array.isArray(value)) message[name] = [...((before as unknown[]) ?? []), ...value];
      else
        message[name] =
          name === 'role' || value === null ? value : `${typeof before === 'string' ? before : ''}${value}`;
    }
  return { ...message, tool_calls: made } as unknown as OpenAI.ChatCompletionMessage;
}

const params = {
  tools: [
    { type: 'function' as const, name: 'weather', parameters: weather().function.parameters, strict: true },
  ],
  max_output_tokens: 4000,
  reasoning: { effort: 'medium' as const, summary: 'auto' as const },
  include: ['reasoning.encrypted_content' as const],
  store: false,
};
const handedBack = ({ output }: { output: readonly OpenAI.Responses.ResponseOutputItem[] }): Item[] => [
  ...(output as Item[]),
  ...output
    .filter((item) => item.type === 'function_call')
    .map(({ call_id }) => ({ type: 'function_call_output' as const, call_id, output: '3 degrees' })),
];
const responsesTurns = (openai: () => OpenAI): [string, Turn<Item>][] => [
  [
    'whole',
    async (model, input) =>
      handedBack(await openai().responses.create({ ...params, model, input: [...input] })),
  ],
  [
    "added up by the client's helper",
    async (model, input) => {
      const stream = openai().responses.stream({ ...params, model, input: [...input] });
      return handedBack(await stream.finalResponse());
    },
  ],
  [
    'items as they were done',
    async (model, input) => {
      const output: OpenAI.Responses.ResponseOutputItem[] = [];
      const stream = await openai().responses.create({ ...params, model, input: [...input], stream: true });
      for await (const event of stream)
        if (event.type === 'response.output_item.done') output.push(event.item);
      return handedBack({ output });
    },
  ],
];

const question = { role: 'user' as const, content: 'Weather in Oslo?' };

loops(
  'chat with openai 7',
  chatTurns(() => clients.openai['openai 7']),
);
loops(
  'responses with openai 7',
  responsesTurns(() => clients.openai['openai 7']),
);
// What differs by version is how its helper adds up.
loops('chat with openai 6', chatTurns(() => clients.openai['openai 6']).slice(1, 2));
loops('responses with openai 6', responsesTurns(() => clients.openai['openai 6']).slice(1, 2));

function loops<T extends Message | Item>(title: string, all: readonly [string, Turn<T>][]): void {
  describe.each(all)(`${title}, answers %s`, (_, turn) => {
    it.each(sealing)('%s gets its own seals back', async (model) => {
      const first = [question as T, ...(await turn(model, [question as T]))];
      const second = [...first, ...(await turn(model, first))];
      expect(modelsWithReasoningSent()).toEqual([model]);
      expectReturned(model);
      await turn(model, second);
      expect(lastRequest().text.split(encryptedReasoningOf(model)).length - 1, 'of both answers').toBe(2);
    });

    it.each(sealing)('encrypted reasoning of %s is returned to it alone, in its next turn', async (model) => {
      let history = [question as T, ...(await turn(model, [question as T]))];
      for (const other of models.filter((each) => each !== model)) {
        history = [...history, ...(await turn(other, history))];
        expect(modelsWithReasoningSent(), other).toEqual([]);
      }
      await turn(model, history);
      expect(modelsWithReasoningSent()).toEqual([model]);
      expectReturned(model);
    });
  });
}

describe('a seal on a call', () => {
  it.each(chatTurns(() => clients.openai['openai 7']))('on the chat wire, %s', async (_, turn) => {
    await sealedCall(turn);
  });
  it.each(responsesTurns(() => clients.openai['openai 7']))('on the responses wire, %s', async (_, turn) => {
    await sealedCall(turn);
  });

  async function sealedCall<T extends Message | Item>(turn: Turn<T>): Promise<void> {
    text = '';
    try {
      const history = [question as T, ...(await turn('gemini', [question as T]))];
      await turn('gemini', history);
      expect(turns('contents')[1]?.['parts']).toEqual([
        expect.objectContaining({
          functionCall: expect.objectContaining({ args: { city: 'Oslo' } }) as unknown,
          thoughtSignature: encryptedReasoningOf('gemini'),
        }),
      ]);
      for (const other of models.filter((each) => each !== 'gemini')) {
        await turn(other, history);
        expect(modelsWithReasoningSent(), other).toEqual([]);
      }
    } finally {
      text = 'Looking.';
    }
  }
});

describe.each(['anthropic 1', 'anthropic 0'] as const)('messages with %s', (version) => {
  const anthropic = () => clients.anthropic[version];
  const ask = {
    model: 'claude',
    max_tokens: 4000,
    thinking: { type: 'enabled' as const, budget_tokens: 2000 },
    tools: [{ name: 'weather', input_schema: weather().function.parameters as never }],
  };
  it.each([
    ['whole', (messages: Anthropic.MessageParam[]) => anthropic().messages.create({ ...ask, messages })],
    [
      'added up',
      (messages: Anthropic.MessageParam[]) =>
        anthropic()
          .messages.stream({ ...ask, messages })
          .finalMessage(),
    ],
  ])('its own seals come back as they went, answers %s', async (_, turn) => {
    const { content } = await turn([question]);
    const results = content
      .filter((block) => block.type === 'tool_use')
      .map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id, content: '3 degrees' }));
    await turn([question, { role: 'assistant', content }, { role: 'user', content: results }]);
    expectReturned('claude');
    expect(lastRequest().body['thinking']).toEqual(ask.thinking);
  });
});
