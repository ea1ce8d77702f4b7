import { composeTranslation } from './core/compose-translation.ts';
import { invalidRequest } from './core/error.ts';
import type { ClientWire, Translation } from './core/wire.ts';
import { providerWireOf, type WireKind } from './providers.ts';

const composedTranslations = new Map<string, Translation>();

/**
 * Returns the translation between a client wire and a provider wire.
 * @throws WireError 400 where there is none
 */
export function translationOf(client: ClientWire, provider: WireKind): Translation {
  const pair = `${client.name} ${provider}` as const;
  const { passthrough, upstream } = providerWireOf(provider);
  const existing = passthrough?.[client.name] ?? composedTranslations.get(pair);
  if (existing) return existing;
  if (client.name === 'completions')
    throw invalidRequest('This model is not served on the completions wire; use POST /v1/chat/completions.', {
      param: 'model',
    });
  const translation = composeTranslation(client, upstream);
  composedTranslations.set(pair, translation);
  return translation;
}
