import { maxLikely } from '../../kernels/logprobs.ts';
import { EngineError, type GenerateRequest } from './types.ts';

/** Rejects request members that no model can honor, all of them in one error. */
export function validateGenerateRequest({
  maxTokens,
  logprobs,
  promptLogprobs = false,
  postSampling = false,
}: GenerateRequest): void {
  const violations: string[] = [];
  const minTokens = promptLogprobs ? 0 : 1;
  if (maxTokens < minTokens) violations.push(`maxTokens must be at least ${minTokens}`);
  const isCount = logprobs === undefined || Number.isInteger(logprobs);
  if (!isCount || (logprobs ?? 0) < 0 || (logprobs ?? 0) > maxLikely)
    violations.push(`logprobs must be an integer of 0 to ${maxLikely}`);
  if (promptLogprobs && logprobs === undefined)
    violations.push('promptLogprobs needs logprobs: how many of the likeliest tokens to report');
  if (postSampling && (logprobs === undefined || promptLogprobs))
    violations.push('postSampling needs logprobs and excludes promptLogprobs: prompt tokens are not sampled');
  if (violations.length > 0) throw new EngineError('invalid_request', violations.join('; '));
}
