/** Sample records as defined by `wgsl/lib/sample_record.wgsl`, written independently of the engine's own packing. */
import type { SamplingRule } from '../../../kernels/reference/index.ts';
import { sampleFlags, sampleWords } from '../../../kernels/sample.ts';

export interface SampleRecord {
  slot: number;
  row?: number;
  flags?: number;
  seed?: number;
  position?: number;
  rule: SamplingRule;
}

export const noRule: SamplingRule = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: new Map(),
};

export const allFlags = sampleFlags.bias | sampleFlags.penalties;

export function sampleRecords(records: readonly SampleRecord[]): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(records.length * sampleWords);
  const floats = new Float32Array(words.buffer);
  records.forEach(({ slot, row = 0, flags = 0, seed = 0, position = 0, rule }, index) => {
    const at = index * sampleWords;
    words.set([row, slot, flags, seed, position, rule.topK], at);
    floats.set(
      [
        rule.temperature,
        rule.topP,
        rule.minP,
        rule.repetitionPenalty,
        rule.presencePenalty,
        rule.frequencyPenalty,
      ],
      at + 6,
    );
  });
  return words;
}
