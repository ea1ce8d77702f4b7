import { didYouMean } from '../../words/nearest.ts';
import { hostedTools, serviceTiers } from '../../wires/core/types.ts';
import type { ConfigFaults } from './config-faults.ts';
import type { DeploymentTable, ModelTable } from './schemas.ts';
import type { Entry } from './tables.ts';

/** The providers that a model names. */
export const providersOf = ({ provider, deployments }: ModelTable): string[] =>
  deployments?.map((deployment) => deployment.provider) ?? (provider === undefined ? [] : [provider]);

/** The prices of a deployment; undefined where it has the model's. A deployment with one price of its own takes none from the model. */
export function ownPricesOf({
  provider: _provider,
  upstream: _upstream,
  weight: _weight,
  priority: _priority,
  requests_per_minute: _requests,
  concurrency: _concurrency,
  ...prices
}: DeploymentTable): typeof prices | undefined {
  return Object.keys(prices).length === 0 ? undefined : prices;
}

interface DeploymentContext {
  /** Ids of all providers of the file. */
  readonly providers: readonly string[];
  readonly generatesText: boolean;
}

/** Checks the deployments of a model: references, prices, and settings that have no effect with its routing. */
export function checkDeployments(
  { path, value: model }: Entry<ModelTable>,
  context: DeploymentContext,
  faults: ConfigFaults,
): void {
  const { deployments, routing = 'priority', sticky } = model;
  if (!deployments) {
    for (const member of ['routing', 'sticky', 'hedge'] as const)
      if (model[member] !== undefined)
        faults.add([...path, member], 'belongs to models with tables [[models.deployments]]');
    return;
  }
  if (model.provider !== undefined)
    faults.add([...path, 'provider'], 'the deployments name their own providers; keep one of the two');
  if (sticky === true && routing === 'least_latency')
    faults.add(
      [...path, 'sticky'],
      'chooses by the prompt, and routing = "least_latency" by the time of earlier answers; keep one of the two',
    );
  if (model.hedge === true && deployments.length < 2)
    faults.add(
      [...path, 'hedge'],
      'asks a second deployment, and this model has one; add another, or remove it',
    );
  const ids = deployments.map((one) => `${one.provider} ${upstreamOf(one, model)}`);
  for (const [index, deployment] of deployments.entries()) {
    const at = (...rest: string[]) => [...path, 'deployments', index, ...rest];
    const { provider, priority, weight } = deployment;
    if (!context.providers.includes(provider))
      faults.add(
        at('provider'),
        `there is no provider '${provider}'${suggestion(provider, context.providers)}`,
      );
    if (ids.indexOf(ids[index] ?? '') < index)
      faults.add(
        at(),
        `'${upstreamOf(deployment, model)}' of the provider '${provider}' is an earlier deployment of this model, too`,
      );
    if (priority !== undefined && routing !== 'priority')
      faults.add(at('priority'), `has no effect with routing = "${routing}"; remove one of the two`);
    if (weight !== undefined && routing === 'least_latency')
      faults.add(at('weight'), 'has no effect with routing = "least_latency"; remove one of the two');
    checkPrices(deployment, { ...context, window: model.context_window, at }, faults);
  }
}

function checkPrices(
  deployment: DeploymentTable,
  {
    generatesText,
    window,
    at,
  }: DeploymentContext & { readonly window: number; readonly at: (...rest: string[]) => (string | number)[] },
  faults: ConfigFaults,
): void {
  const prices = ownPricesOf(deployment);
  if (!prices) return;
  for (const member of ['in_usd_per_mtok', 'out_usd_per_mtok'] as const)
    if (prices[member] === undefined && (member === 'in_usd_per_mtok' || generatesText))
      faults.add(at(member), 'is missing; a deployment with a price of its own takes none from the model');
  checkFurtherPrices(prices, { window, at }, faults);
}

/** Checks the prices besides those of the default tier's tokens, of a model or a deployment. */
export function checkFurtherPrices(
  prices: Pick<ModelTable, 'long_context' | 'tiers' | 'hosted_tools'>,
  { window, at }: { readonly window: number; readonly at: (...rest: string[]) => (string | number)[] },
  faults: ConfigFaults,
): void {
  const thresholds = [
    { over: prices.long_context?.over, path: at('long_context', 'over') },
    ...serviceTiers.map((tier) => ({
      over: prices.tiers?.[tier]?.long_context?.over,
      path: at('tiers', tier, 'long_context', 'over'),
    })),
  ];
  for (const { over, path } of thresholds)
    if (over !== undefined && over >= window)
      faults.add(path, `must be less than context_window, ${window}; got ${over}`);
  const { hosted_tools: tools } = prices;
  if (tools && hostedTools.every((tool) => tools[`${tool}_usd_per_call`] === undefined))
    faults.add(
      at('hosted_tools'),
      `has no price; name at least one of ${hostedTools.map((tool) => `${tool}_usd_per_call`).join(', ')}`,
    );
}

/** The name at the provider. */
const upstreamOf = ({ upstream }: DeploymentTable, model: ModelTable): string =>
  upstream ?? model.upstream ?? model.id;

export const suggestion = (name: string, known: readonly string[]): string =>
  didYouMean(name, known, (found) => `'${found}'`);
