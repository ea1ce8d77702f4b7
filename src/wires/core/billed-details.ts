import { isRecord, type Json } from '../../util/json.ts';
import { serviceTiers, type ServiceTier, type Usage } from './types.ts';

/** Reads the tier that a provider reports; the default one, and those without prices of their own, are undefined. */
export const readServiceTier = (tier: unknown): ServiceTier | undefined =>
  serviceTiers.find((name) => name === tier);

const toCount = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;

/** Reads the tokens of audio and images of OpenAI's token details. */
export function readMediaTokens(input: unknown, output: unknown): Partial<Usage> {
  const counts = {
    audioInput: isRecord(input) ? toCount(input['audio_tokens']) : 0,
    imageInput: isRecord(input) ? toCount(input['image_tokens']) : 0,
    audioOutput: isRecord(output) ? toCount(output['audio_tokens']) : 0,
    imageOutput: isRecord(output) ? toCount(output['image_tokens']) : 0,
  };
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

/** Writes the tokens of audio and images as members of OpenAI's token details. */
export const writeMediaTokens = (audio: number | undefined, image: number | undefined): Json => ({
  ...(audio === undefined ? {} : { audio_tokens: audio }),
  ...(image === undefined ? {} : { image_tokens: image }),
});
