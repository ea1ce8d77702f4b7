import { createAnthropic } from '@ai-sdk/anthropic';
import * as ai from 'ai';
import * as ai5 from 'ai-5';
import * as ai6 from 'ai-6';
import { createAnthropic as createAnthropic2 } from 'ai-sdk-anthropic-2';
import { createAnthropic as createAnthropic3 } from 'ai-sdk-anthropic-3';

/** What is used of an AI SDK; the older ones have the same functions with other types. */
export type AiSdk = Pick<
  typeof ai,
  'generateText' | 'streamText' | 'generateObject' | 'streamObject' | 'tool' | 'jsonSchema' | 'stepCountIs'
>;

/** Each AI SDK with the Anthropic provider that belongs to it. */
export const aiSdks = [
  { version: 5, sdk: ai5 as unknown as AiSdk, create: createAnthropic2 as unknown as typeof createAnthropic },
  { version: 6, sdk: ai6 as unknown as AiSdk, create: createAnthropic3 as unknown as typeof createAnthropic },
  { version: 7, sdk: ai as AiSdk, create: createAnthropic },
] as const;
