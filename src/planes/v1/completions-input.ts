import type { Engine } from '../../engine/index.ts';
import { HttpError, type Violation } from '../../http/error.ts';
import { type RequestedAnswers, maxTokensPerAnswer } from '../turn/answer-limits.ts';
import type { TextRequest } from '../turn/choices.ts';
import { resolveMaxTokens, refuseOverlong, requireKnownTokens } from '../turn/encode.ts';
import { buildFimPrompt } from '../turn/fim.ts';
import { randomSeed } from '../turn/identity.ts';
import { toSampling, toStops } from '../turn/sampling.ts';
import type { TextJob } from '../turn/text-answers.ts';
import { splitInputs } from '../../wires/core/members.ts';
import type { CompletionRequest } from '../../wires/completions/server-schema.ts';
import { findOutputViolations, toOutputConstraint } from './output.ts';
import { cacheOption, progressOption } from '../../wires/core/sampling-schema.ts';

const defaultMaxTokens = 16;

/** Number of answers generated per prompt; the `n` best of them are returned. */
export const generatedPerPrompt = ({ n, best_of: best }: CompletionRequest): number => best ?? n ?? 1;

/** Returns the violations between the members of an otherwise valid body. */
export function findCompletionViolations(body: CompletionRequest): Violation[] {
  const violations = [...findOutputViolations(body)];
  const n = body.n ?? 1;
  if (typeof body.best_of === 'number' && body.best_of < n) {
    violations.push({ path: 'best_of', message: `must be at least n, which is ${n}` });
  }
  if (body.stream && generatedPerPrompt(body) > n) {
    violations.push({
      path: 'best_of',
      message: 'the best answers are only known at the end; leave `stream` out',
    });
  }
  if (body.suffix && typeof body.prompt !== 'string') {
    violations.push({ path: 'suffix', message: 'needs a prompt that is one text' });
  }
  if (body.suffix && body.echo && typeof body.logprobs === 'number') {
    violations.push({
      path: 'logprobs',
      message: 'not available for a prompt with a suffix; leave `echo` out',
    });
  }
  if (body.post_sampling_probs && body.echo && typeof body.logprobs === 'number') {
    const message = 'not available for a prompt, which is not sampled; leave `echo` out';
    violations.push({ path: 'post_sampling_probs', message });
  }
  return violations;
}

/** Encodes and checks every prompt before the first one runs. */
export async function toJobs(engine: Engine, body: CompletionRequest): Promise<TextJob[]> {
  const { tokenizer, model } = engine;
  const prompts = splitInputs(body.prompt);
  const generatedCount = generatedPerPrompt(body);
  const answerMaxTokens = maxTokensPerAnswer(toRequestedAnswers(body, prompts.length), model.contextLength);
  const commonRequest = {
    n: generatedCount,
    sampling: toSampling(body, tokenizer, randomSeed),
    stop: toStops(body.stop),
    grammar: toOutputConstraint(body)?.grammar,
    ...(body.ignore_eos ? { ignoreEnd: true } : {}),
    ...cacheOption(body),
    ...logprobOptions(body),
    ...progressOption(body),
  };
  const jobs: TextJob[] = [];
  for (const [index, prompt] of prompts.entries()) {
    const path =
      Array.isArray(body.prompt) && typeof body.prompt[0] !== 'number' ? `prompt.${index}` : 'prompt';
    const ids = await encodePrompt(engine, prompt, body, path);
    const defaultLimit = Math.min(defaultMaxTokens, answerMaxTokens);
    const maxTokens = resolveMaxTokens(
      ids.length,
      model.contextLength,
      'prompt',
      body.max_tokens,
      defaultLimit,
    );
    const echoText = () =>
      typeof prompt === 'string' ? prompt : tokenizer.decode(prompt, { special: true });
    jobs.push({ request: { ...commonRequest, prompt: ids, maxTokens }, echo: body.echo ? echoText() : '' });
  }
  return jobs;
}

function toRequestedAnswers(body: CompletionRequest, prompts: number): RequestedAnswers {
  const countMember = typeof body.best_of === 'number' ? 'best_of' : 'n';
  return {
    answers: prompts * generatedPerPrompt(body),
    member: prompts > 1 ? 'prompt' : countMember,
    tokens: body.max_tokens,
  };
}

/** Log probabilities are also needed to select the best answers. */
function logprobOptions(
  body: CompletionRequest,
): Pick<TextRequest, 'logprobs' | 'postSampling' | 'promptLogprobs'> {
  if (typeof body.logprobs === 'number') {
    const postSampling = body.post_sampling_probs ?? false;
    return { logprobs: body.logprobs, postSampling, ...(body.echo ? { promptLogprobs: true } : {}) };
  }
  return generatedPerPrompt(body) > (body.n ?? 1) ? { logprobs: 0 } : {};
}

type Prompt = string | readonly number[];

async function encodePrompt(
  engine: Engine,
  prompt: Prompt,
  { suffix, max_tokens: tokens }: CompletionRequest,
  path: string,
): Promise<readonly number[]> {
  if (typeof prompt !== 'string') {
    return requireKnownTokens(engine.tokenizer, prompt, path);
  }
  if (suffix)
    return buildFimPrompt(engine, { prefix: prompt, suffix }, Math.max(1, tokens ?? defaultMaxTokens));
  return await encodeText(engine, prompt);
}

async function encodeText({ tokenizer, model }: Engine, text: string): Promise<readonly number[]> {
  const options = { parseSpecial: true };
  await refuseOverlong(tokenizer, text, model.contextLength, 'prompt', options);
  const ids = tokenizer.encode(text, { ...options, addSpecial: true });
  if (ids.length > 0) return ids;
  // Without a BOS token an empty text has no tokens.
  if (tokenizer.bosId !== undefined) return [tokenizer.bosId];
  throw new HttpError(400, 'invalid_value', 'prompt: must not be empty for this model.', { param: 'prompt' });
}
