import { Link } from 'wouter';
import { CopyValue } from '../../../ui/copy.tsx';
import { Empty, Facts, Page, Panel, Table } from '../../../ui/index.tsx';
import type { Model } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatCount } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { useModels } from '../../queries.ts';
import { StateBadge } from '../../../ui/state-badge.tsx';

type Pricing = Model['pricing'];

/** One model: its limits, its deployments, and the prices of each tier. */
export function ModelPage({ id }: { id: string }) {
  return (
    <Loaded read={useModels()} what="the model">
      {({ data, aliases }) => {
        const model = data.find((one) => one.id === id);
        return model ? (
          <ModelDetails
            model={model}
            aliases={Object.keys(aliases).filter((alias) => aliases[alias] === id)}
          />
        ) : (
          <Page title="Model not found">
            <Empty title={`The catalog has no model ${id}.`}>
              <Link href="/catalog">Show all models</Link>
            </Empty>
          </Page>
        );
      }}
    </Loaded>
  );
}

function ModelDetails({ model, aliases }: { model: Model; aliases: readonly string[] }) {
  const prices = pricesOf(model);
  return (
    <Page title={model.display_name} lead={<Link href="/catalog">All models</Link>}>
      <Panel title="Model">
        <Facts
          facts={[
            ['Id', <CopyValue key="id" value={model.id} label="the id of the model" />],
            ['Aliases', aliases.length === 0 ? 'none' : aliases.join(', ')],
            ['Context window', `${formatCount(model.context_window)} tokens`],
            ['Maximum output', `${formatCount(model.max_output_tokens)} tokens`],
            ['Capabilities', model.caps.join(', ')],
            [
              'Routing',
              model.routing === null
                ? 'one provider'
                : `${model.routing.strategy}${model.routing.sticky ? ', sticky' : ''}`,
            ],
          ]}
        />
      </Panel>
      <Panel title="Deployments">
        <Table
          caption="Deployments"
          rows={model.deployments}
          keyOf={({ provider, upstream }) => `${provider} ${upstream}`}
          columns={[
            {
              key: 'provider',
              head: 'Provider',
              cell: ({ provider }) => <Link href="/providers">{provider}</Link>,
            },
            { key: 'upstream', head: "Provider's name", cell: ({ upstream }) => <code>{upstream}</code> },
            {
              key: 'state',
              head: 'State',
              cell: ({ disabled }) => <StateBadge state={disabled ? 'disabled' : 'active'} />,
            },
            { key: 'weight', head: 'Weight', number: true, cell: ({ weight }) => weight ?? '' },
            { key: 'priority', head: 'Priority', number: true, cell: ({ priority }) => priority ?? '' },
            {
              key: 'limits',
              head: 'Limits',
              cell: ({ requests_per_minute: rpm, concurrency }) =>
                [
                  rpm === null ? '' : `${formatCount(rpm)} requests/min`,
                  concurrency === null ? '' : `${formatCount(concurrency)} concurrent`,
                ]
                  .filter(Boolean)
                  .join(', ') || <span className={css['muted']}>none</span>,
            },
          ]}
        />
      </Panel>
      <Panel title="Prices in US dollars per million tokens">
        <Table
          caption="Prices"
          rows={prices}
          keyOf={({ provider, upstream, tier }) => `${provider} ${upstream} ${tier}`}
          columns={[
            { key: 'provider', head: 'Provider', cell: ({ provider }) => provider },
            { key: 'tier', head: 'Tier', cell: ({ tier }) => tier },
            ...priceColumns
              .filter(([name]) => prices.some((row) => row.prices[name] !== undefined))
              .map(([name, head]) => ({
                key: name,
                head,
                number: true,
                cell: (row: PriceRow) => row.prices[name] ?? '',
              })),
          ]}
        />
        <ToolPrices model={model} />
      </Panel>
    </Page>
  );
}

const priceColumns = [
  ['in_usd_per_mtok', 'Input'],
  ['out_usd_per_mtok', 'Output'],
  ['cache_read_usd_per_mtok', 'Cache read'],
  ['cache_write_usd_per_mtok', 'Cache write'],
  ['in_audio_usd_per_mtok', 'Audio in'],
  ['out_audio_usd_per_mtok', 'Audio out'],
  ['in_image_usd_per_mtok', 'Image in'],
  ['out_image_usd_per_mtok', 'Image out'],
] as const;

interface PriceRow {
  readonly provider: string;
  readonly upstream: string;
  readonly tier: string;
  readonly prices: Pick<Pricing, (typeof priceColumns)[number][0]>;
}

const pricesOf = ({ deployments }: Model): PriceRow[] =>
  deployments.flatMap(({ provider, upstream, pricing }) => [
    { provider, upstream, tier: 'default', prices: pricing },
    ...(['flex', 'priority'] as const).flatMap((tier) => {
      const prices = pricing.tiers?.[tier];
      return prices ? [{ provider, upstream, tier, prices }] : [];
    }),
  ]);

/** What a call of a tool that the provider runs costs; nothing where the model has none. */
function ToolPrices({ model }: { model: Model }) {
  const tools = model.pricing.hosted_tools;
  if (!tools) return null;
  const priced = [
    ['Web search', tools.web_search_usd_per_call],
    ['File search', tools.file_search_usd_per_call],
    ['Code interpreter', tools.code_interpreter_usd_per_call],
  ] as const;
  return (
    <Facts
      facts={[
        ...priced.flatMap(([name, usd]) => (usd === undefined ? [] : [[name, `$${usd} per call`] as const])),
        ['Calls of a request', `${tools.max_calls}, where it names no limit`],
      ]}
    />
  );
}
