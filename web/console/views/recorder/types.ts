import type { components } from '../../../api/schema.d.ts';

export type Rack = components['schemas']['RecorderRack']['data'];
export type Policy = Rack['policy'];
export type Change = components['schemas']['RecorderRackChange'];
export type Tombstone = components['schemas']['RecorderTombstone']['data'];
export type Review = components['schemas']['RecorderReview'];
export type Entry = Review['data']['entries'][number];
export type RackId = Rack['id'];
