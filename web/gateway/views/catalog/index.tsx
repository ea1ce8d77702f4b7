import { Link, Route, Switch } from 'wouter';
import { Empty, Page, Panel } from '../../../ui/index.tsx';
import css from '../../gateway.module.css';
import { formatCount } from '../../format.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { byNumber, byText, PagedTable } from '../../parts/paged-table.tsx';
import { useModels } from '../../queries.ts';
import { ModelPage } from './model-page.tsx';

/** The models that callers can use, with prices and deployments. */
export function Catalog() {
  return (
    <Switch>
      <Route path="/catalog/:id">{({ id }) => <ModelPage id={decodeURIComponent(id)} />}</Route>
      <Route>
        <ModelList />
      </Route>
    </Switch>
  );
}

const price = (text: string): number => Number(text);

function ModelList() {
  return (
    <Page
      title="Catalog"
      lead={
        <>
          Models of the configuration. Prices are in US dollars per million tokens. To change one, edit the
          configuration, then reload it in <Link href="/providers">Providers</Link>.
        </>
      }
    >
      <Panel>
        <Loaded read={useModels()} what="the models">
          {({ data, aliases }) => {
            const aliasesOf = (id: string) =>
              Object.entries(aliases)
                .filter(([, model]) => model === id)
                .map(([alias]) => alias);
            return (
              <PagedTable
                caption="Models"
                what="models"
                rows={data}
                keyOf={({ id }) => id}
                textOf={({ id, display_name: name, caps, deployments }) =>
                  [id, name, ...aliasesOf(id), ...caps, ...deployments.map(({ provider }) => provider)].join(
                    ' ',
                  )
                }
                orders={[
                  { name: 'id', title: 'Id', compare: byText(({ id }) => id) },
                  {
                    name: 'price',
                    title: 'Dearest output first',
                    compare: byNumber(({ pricing }) => price(pricing.out_usd_per_mtok)),
                  },
                ]}
                empty={
                  <Empty title="The catalog has no model.">
                    Add models to the configuration, then reload it.
                  </Empty>
                }
                columns={[
                  {
                    key: 'id',
                    head: 'Model',
                    cell: ({ id }) => (
                      <span className={css['stack']}>
                        <Link href={`/catalog/${encodeURIComponent(id)}`}>{id}</Link>
                        {aliasesOf(id).length > 0 && (
                          <span className={css['small']}>also {aliasesOf(id).join(', ')}</span>
                        )}
                      </span>
                    ),
                  },
                  {
                    key: 'providers',
                    head: 'Deployments',
                    cell: ({ deployments }) => (
                      <span className={css['stack']}>
                        {deployments.map(({ provider, upstream, disabled }) => (
                          <span key={`${provider} ${upstream}`}>
                            {provider}
                            {disabled ? ' (disabled)' : ''}
                          </span>
                        ))}
                      </span>
                    ),
                  },
                  {
                    key: 'in',
                    head: 'Input',
                    number: true,
                    cell: ({ pricing }) => `$${pricing.in_usd_per_mtok}`,
                  },
                  {
                    key: 'out',
                    head: 'Output',
                    number: true,
                    cell: ({ pricing }) => `$${pricing.out_usd_per_mtok}`,
                  },
                  {
                    key: 'context',
                    head: 'Context window',
                    number: true,
                    cell: ({ context_window: tokens }) => formatCount(tokens),
                  },
                  { key: 'caps', head: 'Capabilities', cell: ({ caps }) => caps.join(', ') },
                ]}
              />
            );
          }}
        </Loaded>
      </Panel>
    </Page>
  );
}
