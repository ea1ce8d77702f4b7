import { describe, expect, it } from 'vitest';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
const messages = [{ role: 'user', content: 'hi' }];
const chat = { path: '/v1/chat/completions', body: { messages } };
const responses = { path: '/v1/responses', body: { input: 'hi' } };
const anthropic = { path: '/v1/messages', body: { model: 'scripted', messages, max_tokens: 4 } };

interface Refusal {
  readonly error: { readonly message: string; readonly param?: string; readonly code?: string };
}

async function refusalOf(path: string, body: unknown) {
  const host = await serve();
  const response = await host.post(path, body);
  const { error } = (await response.json()) as Refusal;
  return { status: response.status, ...error };
}

describe('a wrong base address gets a hint with the right path', () => {
  it.each([
    ['/v1/v1/chat/completions', '/v1/chat/completions'],
    ['/v1/v1/v1/chat/completions', '/v1/chat/completions'],
    ['//v1/chat/completions', '/v1/chat/completions'],
    ['/v1/chat/completions/', '/v1/chat/completions'],
    ['/api/chat/completions', '/v1/chat/completions'],
    ['/api/v1/chat/completions', '/v1/chat/completions'],
    ['/messages', '/v1/messages'],
    ['/v1/v1/messages/count_tokens', '/v1/messages/count_tokens'],
    ['/api/api/chat', '/api/chat'],
    ['/v1/api/chat', '/api/chat'],
    ['/tags', '/api/tags'],
    ['/v1/v1/models/some-model', '/v1/models/some-model'],
    ['/api/openapi.json', '/openapi.json'],
  ])('%s means %s', async (path, meant) => {
    const host = await serve();
    const response = await host.app.request(path, { method: 'POST', redirect: 'manual' });
    expect(response.status).toBe(404);
    expect(await response.text()).toContain(`There is no ${path}; did you mean ${meant}?`);
  });

  it.each(['/v1', '/v1/v1', '/', '/nothing', '/v1/nothing', `/v1${'/v1'.repeat(5000)}/chat/completions`])(
    'a path that resembles no route gets no suggestion (%#)',
    async (path) => {
      const host = await serve();
      const text = await (await host.app.request(path, { method: 'PATCH' })).text();
      expect(text).not.toContain('did you mean');
    },
  );
});

describe("another wire's member is refused with its name on this wire", () => {
  const format = { type: 'json_schema', json_schema: { name: 'x', schema: {} } };
  it.each([
    [responses, 'response_format', format, 'text.format', [null, { type: 'text' }]],
    [responses, 'max_tokens', 5, 'max_output_tokens', [null]],
    [responses, 'max_completion_tokens', 5, 'max_output_tokens', [null]],
    [anthropic, 'response_format', format, 'output_config.format', [null, { type: 'text' }]],
    [anthropic, 'stop', ['x'], 'stop_sequences', [null, [], '']],
    [chat, 'format', 'json', 'response_format', [null, '']],
    [chat, 'functions', [{ name: 'f' }], 'tools', [null, []]],
    [chat, 'function_call', { name: 'f' }, 'tool_choice', [null, 'none', 'auto']],
  ])('%j %s', async ({ path, body }, member, value, instead, idle) => {
    const { status, message } = await refusalOf(path, { ...body, [member]: value });
    expect(status).toBe(400);
    expect(message).toMatch(new RegExp(`${member}: .*use \`${instead}\``));
    const host = await serve();
    for (const nothing of idle) {
      const answer = await host.post(path, { ...body, [member]: nothing });
      expect(answer.status, JSON.stringify(nothing)).toBe(200);
    }
  });
});

describe('members that are missing or have the format of another wire', () => {
  it('max_tokens is required of a message', async () => {
    const { message } = await refusalOf(anthropic.path, { model: 'scripted', messages });
    expect(message).toMatch(/max_tokens: is required: expected a whole number/);
    const wrong = await refusalOf(anthropic.path, { ...anthropic.body, max_tokens: 'x' });
    expect(wrong.message).toMatch(/max_tokens: expected a whole number/);
  });

  it('more tokens than the context are reported as length, not as number of answers', async () => {
    for (const member of ['max_tokens', 'max_completion_tokens']) {
      const refused = await refusalOf(chat.path, { ...chat.body, [member]: 100_000_000 });
      expect(refused).toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'messages' });
    }
    const text = await refusalOf('/v1/completions', { prompt: 'hi', max_tokens: 100_000_000 });
    expect(text).toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'prompt' });
    const several = await refusalOf(chat.path, { ...chat.body, n: 2, max_tokens: 100_000_000 });
    expect(several).toMatchObject({ status: 400, param: 'n' });
  });

  it('a tool that is not a function has one violation', async () => {
    const { message } = await refusalOf(chat.path, { ...chat.body, tools: [{ type: 'web_search' }] });
    expect(message).toBe(
      "tools.0.type: tools of type 'web_search' cannot be called by this model; describe them as functions.",
    );
  });

  it.each([{ type: 'function', name: 'f', parameters: {} }, { name: 'f', input_schema: {} }, 'f'])(
    'a tool of another wire is shown the whole form: %j',
    async (tool) => {
      const { message } = await refusalOf(chat.path, { ...chat.body, tools: [tool] });
      expect(message).toMatch(
        /^tools\.0[.\w]*: expected a tool such as \{type: 'function', function: \{name, description, parameters\}\}\.$/,
      );
    },
  );

  it('a tool in chat completions format gets the format of responses', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
    const { message, param } = await refusalOf(responses.path, { ...responses.body, tools });
    expect(message).toContain('tools.0.function: put name, description and parameters beside type');
    expect(param).toBe('tools.0.function');
  });
});
