import { type Kysely, sql } from 'kysely';

/** A released migration never changes. Append new ones. */
export const migrations = {
  '001-begin': {
    async up(db: Kysely<unknown>): Promise<void> {
      for (const statement of [
        `create table settings (
          rack text primary key,
          version integer not null,
          armed integer not null,
          policy text not null,
          changed_at text,
          changed_by text
        ) strict`,
        `create table grants (
          n integer primary key autoincrement,
          id text not null unique,
          rack text not null,
          verbs text not null,
          "to" text not null,
          granted_at text not null,
          granted_by text not null,
          expires_at text not null,
          revoked_at text
        ) strict`,
        `create table tokens (
          n integer primary key autoincrement,
          id text not null unique,
          rack text not null,
          "grant" text not null,
          hash text not null unique,
          label text,
          minted_at text not null,
          minted_by text not null,
          expires_at text not null,
          revoked_at text
        ) strict`,
        `create table review (
          seq integer primary key autoincrement,
          at text not null,
          "by" text not null,
          act text not null,
          rack text,
          details text not null
        ) strict`,
        'create index review_by_rack on review (rack, seq)',
        `create table purges (
          id text primary key,
          rack text not null,
          generation integer not null,
          at text not null,
          "by" text not null,
          found text not null
        ) strict`,
      ])
        await sql.raw(statement).execute(db);
    },
  },
  '002-identities': {
    async up(db: Kysely<unknown>): Promise<void> {
      for (const column of ['to_id text', 'after_generation integer', 'after_seq integer'])
        await sql.raw(`alter table grants add column ${column}`).execute(db);
    },
  },
};
