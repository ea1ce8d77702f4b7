import { Agent, handoff, OpenAIProvider, Runner, tool } from '@openai/agents';
import { expect } from 'vitest';
import { z } from 'zod';
import { checkAbandoned, type Library } from './checks.ts';
import {
  answer,
  handoffAnswer,
  handoffQuestion,
  introduction,
  nameAnswer,
  nameQuestion,
  person,
  personQuestion,
  question,
  storyQuestion,
  twoCitiesAnswer,
  twoCitiesQuestion,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
  weatherTool,
} from './conversation.ts';
import type { Place } from './places.ts';

const personSchema = z.object({ name: z.string(), age: z.number() });

function openaiAgents(wire: 'responses' | 'chat' | 'WebSocket'): Library {
  const useResponses = wire !== 'chat';
  // Over a WebSocket it does not say why a response failed, nor can it see why a connection was refused.
  const errors =
    wire === 'WebSocket'
      ? { unknown: { name: 'ModelBehaviorError' }, badKey: { name: 'TypeError' } }
      : { unknown: { status: 404 }, badKey: { status: 401 } };
  const runnerAt = ({ url, key }: Place) =>
    new Runner({
      modelProvider: new OpenAIProvider({
        baseURL: `${url}/v1`,
        apiKey: key,
        useResponses,
        useResponsesWebSocket: wire === 'WebSocket',
      }),
      tracingDisabled: true,
    });
  const modelAt = (place: Place) => (useResponses ? place.responses : place.chat);
  const agentAt = (place: Place, cities: string[] = []) =>
    new Agent({
      name: 'helper',
      instructions: 'Answer briefly.',
      model: modelAt(place),
      tools: [
        tool({
          name: weatherTool,
          description: 'The weather in a city.',
          parameters: z.object({ city: z.string() }),
          execute({ city }) {
            cities.push(city);
            return city === 'Rome' ? weatherResult : `${weatherResult} in ${city}`;
          },
        }),
      ],
    });
  const stream = (place: Place, agent: Agent, input: string) =>
    runnerAt(place).run(agent, input, { stream: true });

  return {
    name: `OpenAI Agents, ${wire}`,
    places: wire === 'WebSocket' ? ['host'] : ['host', 'gateway'],
    hostOnly: ['stored'],
    checks: {
      async buffered(place) {
        expect((await runnerAt(place).run(agentAt(place), question)).finalOutput).toBe(answer);
      },
      async streamed(place) {
        const result = await stream(place, agentAt(place), question);
        const pieces: string[] = [];
        for await (const piece of result.toTextStream()) pieces.push(piece);
        expect(pieces.join('')).toBe(answer);
        expect(pieces.length).toBeGreaterThan(3);
        expect(result.finalOutput).toBe(answer);
      },
      async usage(place) {
        const { usage } = (await runnerAt(place).run(agentAt(place), question)).runContext;
        const streamed = await stream(place, agentAt(place), question);
        await streamed.completed;
        expect(usage.outputTokens).toBeGreaterThan(3);
        expect(usage.totalTokens).toBe(usage.inputTokens + usage.outputTokens);
        expect(streamed.runContext.usage.totalTokens).toBe(usage.totalTokens);
      },
      async tool(place) {
        const cities: string[] = [];
        const result = await runnerAt(place).run(agentAt(place, cities), weatherQuestion);
        expect(cities).toEqual(['Rome']);
        expect(result.finalOutput).toBe(weatherAnswer);
      },
      async toolStreamed(place) {
        const cities: string[] = [];
        const result = await stream(place, agentAt(place, cities), weatherQuestion);
        await result.completed;
        expect(cities).toEqual(['Rome']);
        expect(result.finalOutput).toBe(weatherAnswer);
      },
      async parallel(place) {
        const cities: string[] = [];
        const result = await runnerAt(place).run(agentAt(place, cities), twoCitiesQuestion);
        expect(cities.toSorted()).toEqual(['Oslo', 'Rome']);
        expect(result.finalOutput).toBe(twoCitiesAnswer);
      },
      async schema(place) {
        const agent = new Agent({ name: 'reader', model: modelAt(place), outputType: personSchema });
        expect((await runnerAt(place).run(agent, personQuestion)).finalOutput).toEqual(person);
        const streamed = await runnerAt(place).run(agent, personQuestion, { stream: true });
        await streamed.completed;
        expect(streamed.finalOutput).toEqual(person);
      },
      async handoff(place) {
        const specialist = new Agent({
          name: 'specialist',
          instructions: 'You are the specialist.',
          model: modelAt(place),
        });
        const first = Agent.create({ name: 'first', model: modelAt(place), handoffs: [handoff(specialist)] });
        const result = await runnerAt(place).run(first, handoffQuestion);
        expect(result.lastAgent?.name).toBe('specialist');
        expect(result.finalOutput).toBe(handoffAnswer);
      },
      ...(useResponses && {
        async stored(place: Place) {
          const { lastResponseId } = await runnerAt(place).run(agentAt(place), introduction);
          expect(lastResponseId).toMatch(/^resp_/);
          const options = { previousResponseId: lastResponseId ?? '' };
          const result = await runnerAt(place).run(agentAt(place), nameQuestion, options);
          expect(result.finalOutput).toBe(nameAnswer);
        },
      }),
      async unknown(place) {
        const agent = new Agent({ name: 'helper', model: 'gpt-9' });
        await expect(runnerAt(place).run(agent, question)).rejects.toMatchObject(errors.unknown);
      },
      async badKey(place) {
        const wrong = { ...place, key: 'wrong-key' };
        await expect(runnerAt(wrong).run(agentAt(place), question)).rejects.toMatchObject(errors.badKey);
      },
      abort: (place) =>
        checkAbandoned(place, async () => {
          const leaving = new AbortController();
          const result = await runnerAt(place).run(agentAt(place), storyQuestion, {
            stream: true,
            signal: leaving.signal,
          });
          for await (const _ of result.toTextStream()) leaving.abort();
        }),
    },
  };
}

export const openaiAgentsLibraries: readonly Library[] = [
  openaiAgents('responses'),
  openaiAgents('chat'),
  openaiAgents('WebSocket'),
];
