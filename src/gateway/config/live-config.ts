import { isDeepStrictEqual } from 'node:util';
import type { ByokProvider, GatewayConfig, Limits } from './types.ts';

/**
 * The configuration of a running gateway. Services keep `limits` and `byok` and read them when they need them, so all of
 * them see a new configuration at once; a request keeps the models and prices that it began with.
 */
export class LiveConfig {
  readonly limits: Readonly<Limits>;
  readonly byok: readonly ByokProvider[];
  readonly #limits: { -readonly [Member in keyof Limits]: Limits[Member] };
  readonly #byok: ByokProvider[];
  #current: GatewayConfig;

  constructor(config: GatewayConfig) {
    this.limits = this.#limits = { ...config.limits };
    this.byok = this.#byok = [...config.byok];
    this.#current = config;
  }

  get current(): GatewayConfig {
    return this.#current;
  }

  /** Replaces everything, or nothing. @returns the settings that need a restart; none where it was replaced */
  replace(next: GatewayConfig): string[] {
    const faults = findRestartSettings(this.#current, next);
    if (faults.length > 0) return faults;
    Object.assign(this.#limits, next.limits);
    this.#byok.splice(0, Infinity, ...next.byok);
    this.#current = next;
    return [];
  }
}

/** The settings that differ and cannot change while requests run. */
function findRestartSettings(before: GatewayConfig, next: GatewayConfig): string[] {
  const keyIds = ({ masterKeys }: GatewayConfig) => masterKeys.map(({ id }) => id).join(' ');
  return [
    ...(before.limits.shared === next.limits.shared ? [] : ['limits.shared']),
    ...(before.limits.maxBodyBytes === next.limits.maxBodyBytes ? [] : ['limits.max_body_bytes']),
    ...(keyIds(before) === keyIds(next) ? [] : ['secrets']),
    ...(isDeepStrictEqual(before.webhook, next.webhook) ? [] : ['webhook']),
  ].map((setting) => `${setting} changes only with a restart`);
}
