/** The settings of a key, as fields of a form and as the body of a request. */
import { api, type Key, unwrap } from '../../api.ts';
import { toLocalTime, toNumber, toTime, type FormField } from '../../parts/form-dialog.tsx';
import { useAccounts, useModels } from '../../queries.ts';

const settings = [
  'label',
  'cap_usd',
  'models',
  'requests_per_minute',
  'tokens_per_minute',
  'concurrency',
  'expires_at',
] as const;
export type Setting = (typeof settings)[number];
export type Settings = Readonly<Record<Setting, string>>;

export const noSettings = Object.fromEntries(settings.map((name) => [name, ''])) as Settings;

const usd = (nano: number): string => {
  const digits = String(nano).padStart(10, '0');
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`.replace(/\.?0+$/, '');
};

export const settingsOf = (key: Key): Settings => ({
  label: key.label ?? '',
  cap_usd: key.cap_nanodollars === null ? '' : usd(key.cap_nanodollars),
  models: key.models?.join(', ') ?? '',
  requests_per_minute: key.requests_per_minute === null ? '' : String(key.requests_per_minute),
  tokens_per_minute: key.tokens_per_minute === null ? '' : String(key.tokens_per_minute),
  concurrency: key.concurrency === null ? '' : String(key.concurrency),
  expires_at: toLocalTime(key.expires_at),
});

/** The members of a request for those settings that differ; an empty one removes the setting. */
export function toBody(values: Settings, before: Settings) {
  const changed = (name: Setting) => values[name].trim() !== before[name];
  const text = (name: Setting) => values[name].trim() || null;
  const number = (name: Setting) => (values[name].trim() === '' ? null : toNumber(values[name]));
  return {
    ...(changed('label') ? { label: text('label') } : {}),
    ...(changed('cap_usd') ? { cap_usd: text('cap_usd') } : {}),
    ...(changed('models') ? { models: text('models') === null ? null : modelsIn(values.models) } : {}),
    ...(changed('requests_per_minute') ? { requests_per_minute: number('requests_per_minute') } : {}),
    ...(changed('tokens_per_minute') ? { tokens_per_minute: number('tokens_per_minute') } : {}),
    ...(changed('concurrency') ? { concurrency: number('concurrency') } : {}),
    ...(changed('expires_at')
      ? { expires_at: values.expires_at === '' ? null : toTime(values.expires_at) }
      : {}),
  };
}

const modelsIn = (text: string): string[] =>
  text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');

/** Fields for the settings. Models that the catalog does not have are pointed out: the gateway accepts them. */
export function useSettingFields(): readonly FormField<Setting>[] {
  const catalog = useModels().data;
  const known = catalog && new Set([...catalog.data.map(({ id }) => id), ...Object.keys(catalog.aliases)]);
  return [
    { name: 'label', label: 'Label', hint: 'What the key is for.' },
    {
      name: 'cap_usd',
      label: 'Spending cap in US dollars',
      hint: 'The most that the key may spend in its life, as 12.5. Empty: no cap.',
    },
    {
      name: 'models',
      label: 'Models',
      hint(text) {
        const unknown = known ? modelsIn(text).filter((name) => !known.has(name)) : [];
        return unknown.length === 0
          ? 'Ids or aliases of the only models it may use, separated by commas. Empty: all.'
          : `The catalog does not have: ${unknown.join(', ')}.`;
      },
    },
    {
      name: 'requests_per_minute',
      label: 'Requests per minute',
      hint: 'Empty: the limit of the configuration.',
    },
    { name: 'tokens_per_minute', label: 'Tokens per minute', hint: 'Empty: the limit of the configuration.' },
    {
      name: 'concurrency',
      label: 'Concurrent requests',
      hint: 'Empty: the limit of the configuration.',
    },
    { name: 'expires_at', label: 'Expires', kind: 'time', hint: 'In your time zone. Empty: never.' },
  ];
}

/** The field for an account, with the names of all as suggestions. */
export function useAccountField() {
  const accounts = useAccounts().data ?? [];
  return {
    name: 'account',
    label: 'Account',
    hint: 'Name or id of the account that pays.',
    options: accounts.map(({ name }) => ({ value: name })),
  } as const;
}

export const createKey = (account: string, values: Settings) =>
  unwrap(
    api.POST('/admin/v1/keys', {
      body: { account: account.trim(), ...toBody(values, noSettings) },
    }),
  );

export const changeKey = (id: string, body: ReturnType<typeof toBody> & { disabled?: boolean }) =>
  unwrap(api.PATCH('/admin/v1/keys/{key}', { params: { path: { key: id } }, body }));

export const revokeKey = (id: string) =>
  unwrap(api.DELETE('/admin/v1/keys/{key}', { params: { path: { key: id } } }));
