import type { OwnCredential, Resolution } from '../access/types.ts';
import type { GatewayConfig } from '../config/types.ts';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import type { KeyRow } from '../ledger/types.ts';
import { nearest } from '../../words/nearest.ts';
import { cloudDeployment, endpointsModel, deploymentForm } from './callers-own.ts';
import { cloudProvider, endpointModel, namespaced, residentName } from './names.ts';
import type { Candidate, Model } from './types.ts';

/** The caller's own credential of a provider, or of an endpoint `kind:slug`. */
export type OwnCredentials = (provider: string) => Promise<OwnCredential | undefined>;

/** Who asks, as far as names go. */
interface Asker {
  /** Those that the key may use; undefined: all. */
  readonly models: KeyRow['models'];
  readonly own: OwnCredentials;
}

export interface Asking extends Asker {
  /** What the caller lets stand in for the model, best first. */
  readonly fallbacks: readonly string[];
}

type Named = {
  readonly model: Model;
  readonly credential: Candidate['credential'];
  readonly alias: boolean;
};

const mostFallbacks = 3;
const fallbackHeader = 'x-svc-fallback-models';

/** The models, and what requests call them. */
export class Catalog {
  readonly #models: ReadonlyMap<string, Model>;
  readonly #local: () => readonly Model[];
  readonly #config: Pick<GatewayConfig, 'aliases' | 'fallbacks' | 'byok'>;

  /** @param local what this very process has at the moment; a configured model of the same id comes first */
  constructor(
    config: Pick<GatewayConfig, 'models' | 'aliases' | 'fallbacks' | 'byok'>,
    local: () => readonly Model[] = () => [],
  ) {
    this.#models = new Map(config.models.map((model) => [model.id, model]));
    this.#config = config;
    this.#local = local;
  }

  /** Everybody's. */
  list(): readonly Model[] {
    return [...this.#models.values(), ...this.#local().filter(({ id }) => !this.#models.has(id))];
  }

  #get(id: string): Model | undefined {
    return this.#models.get(id) ?? this.#local().find((model) => model.id === id);
  }

  /** Those that a caller can use. Callers' deployments and endpoints are not among them. */
  async listFor(models: KeyRow['models'], own: OwnCredentials): Promise<Model[]> {
    const [all, providers] = [this.list(), await this.#ownProviders(own)];
    return all.filter(
      ({ id, provider }) =>
        inScope(id, models) && (provider.access === 'house' || providers.has(provider.id)),
    );
  }

  /**
   * What may serve a request, best first: the model asked for, then those that the caller named to stand in for it, then
   * those of the configuration. Whether they can do what the request asks for is not looked at.
   * @throws WireError 404 `model_not_found`; 400 where a fallback is not known
   */
  async resolve(requested: string, asking: Asking): Promise<Resolution> {
    const found = await this.#find(requested, asking);
    if (!found) throw await this.#notFound(requested, asking);
    const { model, alias } = found;
    const chain = [found, ...(await this.#named(asking)), ...(await this.#configured(model, asking))];
    const candidates = chain.filter(
      (one, place) => chain.findIndex((other) => other.model.id === one.model.id) === place,
    );
    return {
      requested,
      model,
      candidates: candidates.map((one) => ({ model: one.model, credential: one.credential })),
      reason: alias ? 'routed' : 'as_requested',
    };
  }

  /** What a name means to a caller who may use it; undefined: nothing. */
  async #find(name: string, asker: Asker): Promise<Named | undefined> {
    const known = this.#inCatalog(name);
    if (known) {
      const { model } = known;
      if (!inScope(model.id, asker.models)) return undefined;
      const credential = await this.#credential(model, asker);
      return credential && { ...known, credential };
    }
    if (!inScope(name, asker.models)) return undefined;
    const model = await this.#callersOwn(name, asker);
    return model && { ...model, alias: false };
  }

  /** An id, an alias, or `provider/id`. */
  #inCatalog(name: string): { readonly model: Model; readonly alias: boolean } | undefined {
    const exact = this.#get(name);
    if (exact) return { model: exact, alias: false };
    const routed =
      this.#get(this.#config.aliases.get(name) ?? '') ??
      (name === residentName ? this.#local()[0] : undefined);
    if (routed) return { model: routed, alias: true };
    const inside = namespaced(name);
    const model = this.#get(inside?.model ?? '');
    return model && model.provider.id === inside?.provider ? { model, alias: false } : undefined;
  }

  /** The caller's own where there is one: the caller pays the provider, so the house's is not tried after it. */
  async #credential(model: Model, { own }: Asker): Promise<Candidate['credential'] | undefined> {
    const { id, access, apiKey } = model.provider;
    const found = this.#config.byok.some((one) => one.id === id) ? await own(id) : undefined;
    if (found) return { kind: 'byok', provider: id, apiKey: found.apiKey, ...located(found.baseUrl) };
    return access === 'house' ? { kind: 'house', apiKey } : undefined;
  }

  /** A deployment of the caller's cloud resource, or a model of an endpoint that was registered for the account. */
  async #callersOwn(name: string, { own }: Asker): Promise<Omit<Named, 'alias'> | undefined> {
    const inside = endpointModel(name);
    if (inside) {
      const endpoint = await own(inside.endpoint);
      return endpoint?.baseUrl === undefined ? undefined : endpointsModel(name, inside.model, endpoint);
    }
    const cloud = this.#config.byok.find(({ id }) => id === cloudProvider);
    const space = namespaced(name);
    const deployment = space?.provider === cloudProvider ? space.model : name;
    if (!cloud || !deploymentForm.test(deployment)) return undefined;
    const resource = await own(cloudProvider);
    return resource && cloudDeployment(name, deployment, { cloud, resource });
  }

  async #named(asking: Asking): Promise<Named[]> {
    const names = asking.fallbacks;
    if (names.length > mostFallbacks)
      throw invalidRequest(
        `${fallbackHeader} names ${names.length} models; name at most ${mostFallbacks}, separated by commas.`,
        { param: fallbackHeader },
      );
    const found = await Promise.all(names.map((name) => this.#find(name, asking)));
    const unknown = names.filter((_, index) => !found[index]);
    if (unknown.length === 0) return found.filter((one) => one !== undefined);
    const hints = await Promise.all(unknown.map((name) => this.#missing(name, asking)));
    throw invalidRequest(`${fallbackHeader}: ${hints.join(' ')}`, {
      param: fallbackHeader,
      code: 'model_not_found',
    });
  }

  /** Those of the configuration that the caller cannot use are no fault of the caller's. */
  async #configured(model: Model, asking: Asking): Promise<Named[]> {
    const names = this.#config.fallbacks.get(model.id) ?? [];
    const found = await Promise.all(names.map((name) => this.#find(name, asking)));
    return found.filter((one) => one !== undefined);
  }

  async #notFound(name: string, asker: Asker): Promise<WireError> {
    return new WireError(404, 'invalid_request_error', await this.#missing(name, asker), {
      code: 'model_not_found',
      param: 'model',
    });
  }

  /** Why there is no such model for the caller, in a sentence or two. */
  async #missing(name: string, asker: Asker): Promise<string> {
    const shown = `'${name.slice(0, 200).toWellFormed()}'`;
    const known = this.#inCatalog(name)?.model;
    if (known && !inScope(known.id, asker.models))
      return `The model ${shown} is not one that this API key may use.`;
    if (known)
      return `The model ${shown} needs a key of your own for the provider ${known.provider.id}: store one with PUT /v1/keys/${known.provider.id}.`;
    const visible = (await this.listFor(asker.models, asker.own)).map(({ id }) => id);
    const near = nearest(name, [...visible, ...this.#config.aliases.keys()]);
    const hint = near === undefined ? '' : ` Did you mean '${near}'?`;
    return `There is no model ${shown} in your catalog.${hint} GET /v1/models lists what there is.`;
  }

  /** The providers of the catalog that the caller has a credential of. */
  async #ownProviders(own: OwnCredentials): Promise<ReadonlySet<string>> {
    const ids = this.#config.byok.map(({ id }) => id);
    const asked = ids.filter((id) => this.list().some(({ provider }) => provider.id === id));
    const found = await Promise.all(asked.map(own));
    return new Set(asked.filter((_, index) => found[index]));
  }
}

const inScope = (id: string, models: KeyRow['models']): boolean => models?.includes(id) ?? true;

const located = (baseUrl: string | undefined) => (baseUrl === undefined ? {} : { baseUrl });
