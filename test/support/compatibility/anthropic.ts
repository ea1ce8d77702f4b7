import Anthropic from '@anthropic-ai/sdk';
import { expect } from 'vitest';
import {
  answerOf,
  type Client,
  checkFreed,
  checkWeatherCall,
  png,
  question,
  stopWord,
  weather,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
} from './features.ts';

const model = 'lathe-tiny';
const clientOf = (url: string) => new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
const ask = (content: string) => ({
  model,
  max_tokens: 100,
  temperature: 0,
  messages: [{ role: 'user' as const, content }],
});
const tools = [{ name: weather.name, description: weather.description, input_schema: weather.parameters }];
const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');
const callOf = ({ content }: Anthropic.Message) => content.find((block) => block.type === 'tool_use');

export const anthropic: Client = {
  name: '@anthropic-ai/sdk',
  checks: {
    async buffered({ url }) {
      const message = await clientOf(url).messages.create(ask(question));
      expect(textOf(message)).toMatch(answerOf);
      expect(message.stop_reason).toBe('end_turn');
    },
    async streamed({ url }) {
      const whole = await clientOf(url).messages.create(ask(question));
      const message = await clientOf(url).messages.stream(ask(question)).finalMessage();
      expect(textOf(message)).toBe(textOf(whole));
    },
    async usage({ url }) {
      const whole = await clientOf(url).messages.create(ask(question));
      const message = await clientOf(url).messages.stream(ask(question)).finalMessage();
      expect(message.usage.output_tokens).toBe(whole.usage.output_tokens);
      const input = ({ usage }: Anthropic.Message) =>
        usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
      expect(input(message)).toBe(input(whole));
      const { input_tokens } = await clientOf(url).messages.countTokens({
        model,
        messages: ask(question).messages,
      });
      expect(input_tokens).toBe(input(whole));
    },
    async tool({ url }) {
      const message = await clientOf(url).messages.create({ ...ask(weatherQuestion), tools });
      expect(message.stop_reason).toBe('tool_use');
      checkWeatherCall(callOf(message)?.name, callOf(message)?.input);
    },
    async toolStreamed({ url }) {
      const tool_choice = { type: 'any' as const };
      const message = await clientOf(url)
        .messages.stream({ ...ask('Hello!'), tools, tool_choice })
        .finalMessage();
      checkWeatherCall(callOf(message)?.name, callOf(message)?.input);
    },
    async toolLoop({ url }) {
      const first = await clientOf(url).messages.create({ ...ask(weatherQuestion), tools });
      const tool_use_id = callOf(first)?.id ?? '';
      const result = { type: 'tool_result' as const, tool_use_id, content: weatherResult };
      const second = await clientOf(url).messages.create({
        ...ask(weatherQuestion),
        tools,
        messages: [
          ...ask(weatherQuestion).messages,
          { role: 'assistant', content: first.content as never },
          { role: 'user', content: [result] },
        ],
      });
      expect(textOf(second)).toMatch(weatherAnswer);
    },
    async stop({ url }) {
      const message = await clientOf(url).messages.create({ ...ask(question), stop_sequences: [stopWord] });
      expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: stopWord });
      expect(textOf(message)).not.toContain(stopWord);
    },
    async models({ url }) {
      const { data } = await clientOf(url).models.list();
      expect(data).toMatchObject([{ id: model, type: 'model', display_name: model }]);
    },
    abort: (places) =>
      checkFreed(places, async () => {
        const request = {
          ...ask('Tell me a story about an owl named Mia.'),
          max_tokens: 900,
          temperature: 1,
        };
        const stream = clientOf(places.url).messages.stream(request);
        for await (const event of stream) if (event.type === 'content_block_delta') break;
        stream.abort();
      }),
    async image({ url }) {
      const source = { type: 'base64' as const, media_type: 'image/png' as const, data: png };
      const answer = clientOf(url).messages.create({
        ...ask(''),
        messages: [{ role: 'user', content: [{ type: 'image', source }] }],
      });
      await expect(answer).rejects.toThrow(/image/);
      await expect(answer).rejects.toBeInstanceOf(Anthropic.BadRequestError);
    },
    async unknown({ url }) {
      const answer = clientOf(url).messages.create({ ...ask('hi'), model: 'claude-9' });
      await expect(answer).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    },
    async invalid({ url }) {
      const wrong = { ...ask('hi'), temperature: 9, max_tokens: -1 };
      const answer = clientOf(url).messages.create(wrong);
      await expect(answer).rejects.toThrow(/max_tokens[\s\S]*temperature|temperature[\s\S]*max_tokens/);
    },
  },
};
