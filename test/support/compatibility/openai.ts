import OpenAI from 'openai';
import { expect } from 'vitest';
import {
  answerOf,
  type Client,
  checkFreed,
  checkPerson,
  checkWeatherCall,
  gap,
  person,
  personQuestion,
  type Places,
  png,
  question,
  stopWord,
  weather,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
} from './features.ts';

const model = 'lathe-tiny';
const clientOf = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
const ask = (content: string) => ({ model, temperature: 0, messages: [{ role: 'user' as const, content }] });
const tools = [{ type: 'function' as const, function: weather }];
const image = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${png}` } };

/** Begins a long stream, leaves it after the first chunk, and looks whether the model is free. */
async function leave(
  places: Places,
  begin: () => Promise<AsyncIterable<unknown> & { controller: AbortController }>,
) {
  await checkFreed(places, async () => {
    const stream = await begin();
    for await (const _ of stream) {
      stream.controller.abort();
      break;
    }
  });
}

export const openaiChat: Client = {
  name: 'openai chat',
  checks: {
    async buffered({ url }) {
      const { choices } = await clientOf(url).chat.completions.create(ask(question));
      expect(choices[0]?.message.content).toMatch(answerOf);
      expect(choices[0]?.finish_reason).toBe('stop');
    },
    async streamed({ url }) {
      const openai = clientOf(url);
      const request = {
        ...ask('Tell me a story about an owl named Mia.'),
        temperature: 1,
        seed: 7,
        max_tokens: 60,
      };
      const whole = await openai.chat.completions.create(request);
      const stream = openai.chat.completions.stream(request);
      const streamed = await stream.finalChatCompletion();
      expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]?.message.content);
    },
    async usage({ url }) {
      const openai = clientOf(url);
      const { usage } = await openai.chat.completions.create(ask(question));
      expect(usage?.completion_tokens).toBeGreaterThan(3);
      const stream = openai.chat.completions.stream({
        ...ask(question),
        stream_options: { include_usage: true },
      });
      const final = await stream.finalChatCompletion();
      expect(final.usage?.total_tokens).toBe(usage?.total_tokens);
    },
    async tool({ url }) {
      const { choices } = await clientOf(url).chat.completions.create({ ...ask(weatherQuestion), tools });
      const call = choices[0]?.message.tool_calls?.[0];
      expect(choices[0]?.finish_reason).toBe('tool_calls');
      if (call?.type === 'function') checkWeatherCall(call.function.name, call.function.arguments);
      else throw new Error('no call');
    },
    async toolStreamed({ url }) {
      const tool_choice = 'required' as const;
      const stream = clientOf(url).chat.completions.stream({ ...ask('Hello!'), tools, tool_choice });
      const final = await stream.finalChatCompletion();
      const call = final.choices[0]?.message.tool_calls?.[0];
      if (call?.type === 'function') checkWeatherCall(call.function.name, call.function.arguments);
      else throw new Error('no call');
    },
    async toolLoop({ url }) {
      const runner = clientOf(url).chat.completions.runTools({
        ...ask(weatherQuestion),
        tools: [
          { type: 'function', function: { ...weather, parse: JSON.parse, function: () => weatherResult } },
        ] as never,
      });
      expect(await runner.finalContent()).toMatch(weatherAnswer);
    },
    async schema({ url }) {
      const { choices } = await clientOf(url).chat.completions.create({
        ...ask(personQuestion),
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'person', schema: person, strict: true },
        },
      });
      checkPerson(choices[0]?.message.content ?? '');
    },
    async stop({ url }) {
      const { choices } = await clientOf(url).chat.completions.create({ ...ask(question), stop: stopWord });
      expect(choices[0]?.message.content).not.toContain(stopWord);
      expect(choices[0]?.finish_reason).toBe('stop');
    },
    async logprobs({ url }) {
      const { choices } = await clientOf(url).chat.completions.create({
        ...ask(question),
        logprobs: true,
        top_logprobs: 3,
      });
      const content = choices[0]?.logprobs?.content ?? [];
      expect(content.map(({ token }) => token).join('')).toBe(choices[0]?.message.content);
      for (const { logprob, token, top_logprobs } of content) {
        expect(top_logprobs).toHaveLength(3);
        expect(top_logprobs[0]).toMatchObject({ token, logprob });
      }
    },
    async several({ url }) {
      const { choices } = await clientOf(url).chat.completions.create({
        ...ask('Tell me a story about an owl named Mia.'),
        temperature: 1,
        seed: 3,
        n: 3,
        max_tokens: 40,
      });
      expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
      expect(new Set(choices.map(({ message }) => message.content)).size).toBe(3);
    },
    async models({ url }) {
      const models = await clientOf(url).models.list();
      expect(models.data.map(({ id }) => id)).toContain(model);
    },
    abort: (places) =>
      leave(places, () =>
        clientOf(places.url).chat.completions.create({
          ...ask('Tell me a story about an owl named Mia.'),
          n: 8,
          temperature: 1.9,
          stream: true,
        }),
      ),
    async image({ url }) {
      const content = [{ type: 'text' as const, text: 'What is this?' }, image];
      const answer = clientOf(url).chat.completions.create({ model, messages: [{ role: 'user', content }] });
      await expect(answer).rejects.toThrow(/image_url/);
      await expect(answer).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    },
    async unknown({ url }) {
      const answer = clientOf(url).chat.completions.create({ ...ask('hi'), model: 'gpt-9' });
      await expect(answer).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    },
    async invalid({ url }) {
      const answer = clientOf(url).chat.completions.create({ ...ask('hi'), temperature: 9, n: 0 });
      await expect(answer).rejects.toThrow(/temperature[\s\S]*n:|n:[\s\S]*temperature/);
    },
  },
};

export const openaiResponses: Client = {
  name: 'openai responses',
  checks: {
    async buffered({ url }) {
      const response = await clientOf(url).responses.create({ model, input: question, temperature: 0 });
      expect(response.output_text).toMatch(answerOf);
    },
    async streamed({ url }) {
      const stream = clientOf(url).responses.stream({ model, input: question, temperature: 0 });
      let text = '';
      stream.on('response.output_text.delta', ({ delta }) => {
        text += delta;
      });
      expect((await stream.finalResponse()).output_text).toBe(text);
      expect(text).toMatch(answerOf);
    },
    async usage({ url }) {
      const openai = clientOf(url);
      const { usage } = await openai.responses.create({ model, input: question, temperature: 0 });
      const final = await openai.responses.stream({ model, input: question, temperature: 0 }).finalResponse();
      expect(usage?.output_tokens).toBeGreaterThan(3);
      expect(final.usage?.total_tokens).toBe(usage?.total_tokens);
    },
    async tool({ url }) {
      const { output } = await clientOf(url).responses.create(withTool(weatherQuestion));
      const call = output.find((item) => item.type === 'function_call');
      checkWeatherCall(call?.name, call?.arguments);
    },
    async toolStreamed({ url }) {
      const request = { ...withTool('Hello!'), tool_choice: 'required' as const };
      const { output } = await clientOf(url).responses.stream(request).finalResponse();
      const call = output.find((item) => item.type === 'function_call');
      checkWeatherCall(call?.name, call?.arguments);
    },
    async toolLoop({ url }) {
      const openai = clientOf(url);
      const first = await openai.responses.create(withTool(weatherQuestion));
      const call = first.output.find((item) => item.type === 'function_call');
      const result = {
        type: 'function_call_output' as const,
        call_id: call?.call_id ?? '',
        output: weatherResult,
      };
      const input = [{ role: 'user' as const, content: weatherQuestion }, ...first.output, result];
      const second = await openai.responses.create({ ...withTool(''), input: input as never });
      expect(second.output_text).toMatch(weatherAnswer);
    },
    async schema({ url }) {
      const format = { type: 'json_schema' as const, name: 'person', schema: person, strict: true };
      const request = { model, input: personQuestion, temperature: 0, text: { format } };
      checkPerson((await clientOf(url).responses.create(request)).output_text);
    },
    abort: (places) =>
      leave(places, () =>
        clientOf(places.url).responses.create({
          model,
          input: 'Tell me a story about an owl named Mia.',
          temperature: 1.9,
          stream: true,
        }),
      ),
    async image({ url }) {
      const part = { type: 'input_image' as const, detail: 'auto' as const, image_url: image.image_url.url };
      const answer = clientOf(url).responses.create({ model, input: [{ role: 'user', content: [part] }] });
      await expect(answer).rejects.toThrow(/input_image/);
    },
    async unknown({ url }) {
      const answer = clientOf(url).responses.create({ model: 'gpt-9', input: 'hi' });
      await expect(answer).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    },
    async invalid({ url }) {
      const answer = clientOf(url).responses.create({
        model,
        input: 'hi',
        temperature: 9,
        max_output_tokens: 0,
      });
      await expect(answer).rejects.toThrow(
        /temperature[\s\S]*max_output_tokens|max_output_tokens[\s\S]*temperature/,
      );
    },
  },
};

/** The beginning of a story, long enough to go on. */
const begun = 'In a house near the kitchen lived Mia, an owl.';

const withTool = (input: string) => ({
  model,
  input,
  temperature: 0,
  tools: [{ type: 'function' as const, ...weather, strict: true }],
});

export const openaiCompletions: Client = {
  name: 'openai completions',
  checks: {
    async buffered({ url }) {
      const { choices } = await clientOf(url).completions.create({
        model,
        prompt: begun,
        temperature: 0,
        max_tokens: 8,
      });
      expect(choices[0]?.finish_reason).toBe('length');
      expect(choices[0]?.text).not.toBe('');
    },
    async streamed({ url }) {
      const request = { model, prompt: 'Once upon', max_tokens: 20, seed: 5 };
      const whole = await clientOf(url).completions.create(request);
      let text = '';
      for await (const chunk of await clientOf(url).completions.create({ ...request, stream: true })) {
        text += chunk.choices[0]?.text ?? '';
      }
      expect(text).toBe(whole.choices[0]?.text);
    },
    async usage({ url }) {
      const { usage } = await clientOf(url).completions.create({
        model,
        prompt: begun,
        temperature: 0,
        max_tokens: 8,
      });
      expect(usage?.completion_tokens).toBe(8);
    },
    async stop({ url }) {
      const request = { model, prompt: begun, temperature: 0, max_tokens: 12 };
      const whole = (await clientOf(url).completions.create(request)).choices[0]?.text ?? '';
      const word = whole.trim().split(' ')[1] ?? '';
      const { choices } = await clientOf(url).completions.create({ ...request, stop: [word] });
      expect(choices[0]?.text).toBe(whole.slice(0, whole.indexOf(word)));
    },
    async logprobs({ url }) {
      const { choices } = await clientOf(url).completions.create({
        model,
        prompt: 'The capital of Italy is Rome',
        echo: true,
        logprobs: 2,
        max_tokens: 0,
      });
      const logprobs = choices[0]?.logprobs;
      expect(logprobs?.tokens?.join('')).toBe(choices[0]?.text);
      expect(logprobs?.token_logprobs?.[0]).toBeNull();
      expect(logprobs?.token_logprobs?.slice(1).every((value) => value <= 0)).toBe(true);
    },
    async several({ url }) {
      const { choices } = await clientOf(url).completions.create({
        model,
        prompt: ['Once upon', 'The capital'],
        n: 2,
        max_tokens: 6,
      });
      expect(choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    },
    async middle({ url }) {
      const { choices } = await clientOf(url).completions.create({
        model,
        prompt: gap.before,
        suffix: gap.after,
        temperature: 0,
        max_tokens: 12,
      });
      expect(choices[0]?.text).toBe(gap.middle);
    },
    abort: (places) =>
      leave(places, () =>
        clientOf(places.url).completions.create({
          model,
          prompt: 'Once upon',
          max_tokens: 900,
          temperature: 1.9,
          stream: true,
          n: 4,
        }),
      ),
    async unknown({ url }) {
      const answer = clientOf(url).completions.create({ model: 'gpt-9', prompt: 'hi' });
      await expect(answer).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    },
    async invalid({ url }) {
      const answer = clientOf(url).completions.create({ model, prompt: 'hi', temperature: 9, logprobs: 9 });
      await expect(answer).rejects.toThrow(/temperature[\s\S]*logprobs|logprobs[\s\S]*temperature/);
    },
    async embeddings({ embedder }) {
      const openai = clientOf(embedder);
      const { data, usage } = await openai.embeddings.create({
        model: await onlyModel(openai),
        input: ['a b', 'c'],
      });
      expect(data).toHaveLength(2);
      expect(Math.hypot(...(data[0]?.embedding ?? []))).toBeCloseTo(1, 4);
      expect(usage.prompt_tokens).toBeGreaterThan(2);
    },
  },
};

async function onlyModel(openai: OpenAI): Promise<string> {
  return (await openai.models.list()).data[0]?.id ?? '';
}
