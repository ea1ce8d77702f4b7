import AnthropicOld from 'anthropic-sdk-0';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import OpenAIOld from 'openai-6';
import { expect } from 'vitest';
import { sharedPath } from '../shared.ts';
import { payloadsOf } from './frames.ts';
import { openApiDocument, schemaFaults } from './schemas.ts';
import type { Customer } from './world.ts';

type Json = Record<string, unknown>;

/** Members that Open Responses requires in every response, regardless of OpenAI's document. */
const openResponsesKeys =
  'id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key'.split(
    ' ',
  );

const kinds = [
  ['/chat/completions', 'chat'],
  ['/completions', 'completions'],
  ['/responses', 'responses'],
  ['/embeddings', 'embeddings'],
] as const;

/**
 * The official clients at a gateway, and a judge of all that they are given: OpenAI's bodies and chunks against the published
 * schema.
 */
export function clientsOf(url: string, { secret }: Customer, maxRetries = 0) {
  const judged: Promise<void>[] = [];
  const faults: string[] = [];
  const judging: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    const path = new URL(input instanceof Request ? input.url : input).pathname;
    const kind = kinds.find(([ending]) => path.endsWith(ending))?.[1];
    if (kind === undefined) return response;
    const copy = response.clone();
    // A disconnect of the caller ends the copy too.
    const judge = copy.text().then(
      (text) => {
        for (const fault of faultsOf(kind, copy, text)) faults.push(`${path}: ${fault}`);
      },
      () => {},
    );
    judged.push(judge);
    return response;
  };
  const options = { apiKey: secret, maxRetries, fetch: judging };
  return {
    openai: {
      'openai 7': new OpenAI({ ...options, baseURL: `${url}/v1` }),
      // The same methods as far as they are used here.
      'openai 6': new OpenAIOld({ ...options, baseURL: `${url}/v1` }) as unknown as OpenAI,
    },
    anthropic: {
      'anthropic 1': new Anthropic({ ...options, baseURL: url }),
      'anthropic 0': new AnthropicOld({ ...options, baseURL: url }) as unknown as Anthropic,
    },
    fetch: judging,
    /** Asserts that everything received so far fits the published schema. */
    async verify() {
      await Promise.all(judged);
      expect(faults.splice(0)).toEqual([]);
    },
  };
}

export type Clients = ReturnType<typeof clientsOf>;

function faultsOf(kind: (typeof kinds)[number][1], { ok, headers }: Response, text: string): string[] {
  if (sharedPath(openApiDocument) === undefined) return [];
  if (!headers.get('content-type')?.startsWith('text/event-stream')) {
    const body = JSON.parse(text) as Json;
    if (!ok) return schemaFaults('error', 'body', body);
    return [...schemaFaults(kind, 'body', body), ...(kind === 'responses' ? missingKeys(body) : [])];
  }
  return payloadsOf<Json>(text).flatMap((chunk) => [
    ...schemaFaults(kind, 'chunk', chunk),
    ...(kind === 'responses' && chunk['response'] ? missingKeys(chunk['response'] as Json) : []),
  ]);
}

/** For responses that the gateway writes itself. */
const missingKeys = (response: Json): string[] =>
  String(response['id']).startsWith('resp_')
    ? openResponsesKeys.filter((key) => !(key in response)).map((key) => `Open Responses wants ${key}`)
    : [];

export const weather = (name = 'weather') =>
  ({
    type: 'function',
    function: {
      name,
      description: 'The weather in a city.',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' } },
        required: ['city'],
        additionalProperties: false,
      },
    },
  }) as const;
