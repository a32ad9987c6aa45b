// The page's modules that know of no browser: who waits for whom, and what is remembered.
import assert from "node:assert/strict";

import {addChanges, changesOf, linesUntil, newestFirst, pictureOf, remember, sightOf, stillSince, withGateways, withTimesOfDay} from "./page/past.js";
import {Lives, Peaks, Stillness, partsOf, pending, quantile, ringKey, takenOf, unseen, waitsFor, withTaken} from "./page/rings.js";
import {duration, visible} from "./page/text.js";

const ring = (figures = {}) => ({
  device: "nic0", event_id: 1, generation: 7, label: "", kernel: "echo", entries: 64, doorbell: 10, launched: 10,
  completed: 10, consumed: 10, peak: 0, counts: {rung: 10, done: 10, failed: 0, aborted: 0},
  rate: 5, p50_ns: 1, p99_ns: 2, life: null, ...figures,
});
const device = (figures = {}) =>
  ({name: "nic0", kind: "nic", pid: 7, state: "running", silent_ns: 0, ...figures});
const picture = (figures = {}) => ({
  testbed: "t", time_ns: 5e9, gpud: {state: "live", note: ""}, struck: 0, rings: [ring()],
  totals: {policy: "fifo", tracing: false, events: {rung: 10, done: 9, failed: 1, aborted: 0}},
  devices: [device()], processes: [], faults: [], strikes: [], ...figures,
});

const tests = {
  "each figure that lags says who is waited for"() {
    assert.equal(waitsFor(ring(), 0).who, "");
    assert.deepEqual(waitsFor(ring({doorbell: 13}), 0),
                     {who: "gpud", what: "rung, and gpud has not looked", events: 3});
    assert.equal(waitsFor(ring({completed: 8, consumed: 8}), 0).who, "GPU");
    assert.equal(waitsFor(ring({consumed: 8}), 0).who, "device");
    assert.equal(waitsFor(ring({doorbell: 13}), 6e8).who, "device");
    assert.equal(waitsFor(ring({doorbell: 13}), 4e8).who, "gpud");
  },
  "a doorbell that has begun anew at 2^32 is not taken for billions of events"() {
    assert.equal(unseen(ring({doorbell: 2, launched: 4294967295})), 3);
    assert.equal(unseen(ring({doorbell: 4294967295, launched: 4294967295})), 0);
    assert.equal(unseen(ring({doorbell: 1, launched: 2 * 4294967296 + 1})), 0);
  },
  "a ring is still since its figures moved last"() {
    const still = new Stillness();
    still.look([ring()], 1e9);
    assert.equal(still.look([ring()], 3e9).get(ringKey(ring())), 2e9);
    assert.equal(still.look([ring({consumed: 9})], 4e9).get(ringKey(ring())), 0);
  },
  "what was still before the page was opened is still for longer"() {
    const past = (time_ns, figures) => remember(picture({time_ns, rings: [ring(figures)]}), new Map());
    const history = [past(1e9, {consumed: 9}), past(2e9), past(3e9)];
    const still = new Stillness();
    still.look([ring(), ring({event_id: 2})], 80e9);
    still.extend(stillSince(history, 2));
    const seen = still.look([ring(), ring({event_id: 2})], 82e9);
    assert.deepEqual([...seen.values()], [80e9, 2e9]);
    // It moved after the last record.
    const other = new Stillness();
    other.look([ring({consumed: 11})], 80e9);
    other.extend(stillSince(history, 2));
    assert.equal(other.look([ring({consumed: 11})], 82e9).get(ringKey(ring())), 2e9);
  },
  "the gateway's history fills what the page has not seen"() {
    const past = (time_ns) => ({time_ns, rings: []});
    assert.deepEqual(withGateways([past(5.2e9), past(9.2e9)], [4, 5, 6, 7, 8, 9, 10].map((each) => past(each * 1e9)))
      .map(({time_ns}) => time_ns / 1e9), [4, 5.2, 7, 8, 9.2]);
  },
  "lines that belong to another stay behind it when the newest comes first"() {
    const lines = [[null, 0], [1, 1], [null, 2], [null, 3], [2, 4]].map(([time_ns, line]) => ({time_ns, line}));
    assert.deepEqual(newestFirst(lines).map(({line}) => line), [4, 1, 2, 3, 0]);
    assert.deepEqual(newestFirst([]), []);
  },
  "a peak is remembered for fifteen seconds"() {
    const peaks = new Peaks();
    peaks.look([ring({peak: 64})], 1e9);
    assert.equal(peaks.look([ring({peak: 1})], 15e9).get(ringKey(ring())), 64);
    assert.equal(peaks.look([ring({peak: 1})], 16e9).get(ringKey(ring())), 1);
    assert.equal(peaks.look([ring({peak: 3})], 17e9).get(ringKey(ring())), 3);
    assert.equal(peaks.look([ring({peak: 2})], 31e9).get(ringKey(ring())), 3);
    assert.equal(peaks.look([ring({peak: 0})], 32e9).get(ringKey(ring())), 2);
  },
  "a life's parts leave out stages that are not known"() {
    const life = {sequence: 1, rung_ns: 100, seen_ns: 0, queued_ns: 150, dispatched_ns: 140, finished_ns: 200};
    assert.deepEqual(partsOf(life), [["queued", 0, 50], ["finished", 50, 50]]);
    assert.equal(quantile([3, 1, 2], 0.5), 2);
    assert.equal(quantile([3, 1, 2], 0.99), 3);
  },
  "an earlier picture has the rings and totals of then"() {
    const before = remember(picture(), new Map());
    const past = remember(picture({time_ns: 6e9, rings: [ring({doorbell: 23, launched: 20, completed: 18, consumed: 17, peak: 9})]}),
                          new Map());
    const shown = pictureOf(picture({time_ns: 99e9}), past, before);
    assert.equal(shown.time_ns, 6e9);
    assert.equal(shown.rings[0].consumed, 17);
    assert.equal(shown.rings[0].peak, 9);
    assert.equal(shown.rings[0].rate, 8);
    assert.equal(pending(shown.rings[0]), 5);
    // It counts how many ended, not how.
    assert.deepEqual(shown.rings[0].counts, {rung: 23, ended: 18, done: null, failed: null, aborted: null});
    const gone = pictureOf(picture({rings: []}), past, before).rings[0];
    assert.deepEqual([gone.device, gone.completed, gone.entries], ["nic0", 18, null]);
    // Another device of its name has the ring of that name now.
    const next = picture({rings: [ring({generation: 8, label: "second"})]});
    assert.deepEqual([pictureOf(next, past, before).rings[0]].map(({label, kernel, completed}) => [label, kernel, completed]),
                     [["", "-", 18]]);
    // gpud was started anew between the two: there is no rate.
    const anew = {...before, time_ns: 7e9};
    assert.equal(pictureOf(picture(), anew, past).rings[0].rate, null);
  },
  "what no history keeps is empty in an earlier picture, not as it is now"() {
    const now = picture({
      processes: [{name: "gpud"}], queues: [{name: "events"}], devices: [device({silent_ns: 9e9, note: "now"})],
      strikes: [{time_ns: 1e9, fault: "then"}, {time_ns: 7e9, fault: "later"}]});
    const shown = pictureOf(now, remember(picture(), new Map()), undefined);
    assert.deepEqual([shown.processes, shown.queues, shown.totals.policy, shown.totals.resident_blocks],
                     [[], [], null, null]);
    assert.deepEqual(shown.devices.map(({name, kind, state, silent_ns, note}) =>
      [name, kind, state, silent_ns, note]), [["nic0", "nic", null, 0, ""]]);
    assert.deepEqual(shown.strikes.map(({fault}) => fault), ["then"]);
  },
  "all that views show is as of an earlier second"() {
    const at = (seconds, figures) =>
      remember(picture({time_ns: seconds * 1e9, rings: [ring({peak: 7, ...figures})]}), new Map());
    const page = {
      newest: picture({time_ns: 99e9}),
      history: [at(1, {doorbell: 8}), at(2, {}), at(3, {}), at(4, {}), at(5, {doorbell: 12})],
      lives: [{ring: "a", time: 3e9}, {ring: "a", time: 5e9}],
      logs: [{time_ns: 2e9}, {time_ns: null}, {time_ns: 5e9}, {time_ns: null}],
      changes: [{time_ns: 4e9, text: "one"}, {time_ns: 4.5e9, text: "two"}],
    };
    const sight = sightOf(page, 3);
    assert.equal(sight.still.get(ringKey(ring())), 2e9);
    assert.equal(sight.peaks.get(ringKey(ring())), 7);
    assert.deepEqual(sight.history.map(({time_ns}) => time_ns), [1e9, 2e9, 3e9, 4e9]);
    assert.deepEqual(sight.lives, [{ring: "a", time: 3e9}]);
    assert.equal(sight.logs.length, 2);
    assert.deepEqual(sight.changes.map(({text}) => text), ["one"]);
    assert.equal(sightOf(page, 4).still.get(ringKey(ring())), 0);
    assert.deepEqual(linesUntil([{time_ns: 5e9}], 4e9), []);
  },
  "of an event one life is kept, for ten seconds, and of many rings some at a time"() {
    const lives = new Lives();
    const life = (sequence) => ({sequence, rung_ns: 1, seen_ns: 2, queued_ns: 3, dispatched_ns: 4, finished_ns: 5});
    for (const time of [1e9, 2e9]) lives.look([ring({life: life(7)})], time);
    lives.look([ring({life: life(8)}), ring({event_id: 2})], 3e9);
    assert.deepEqual(lives.all.map(({time, life: {sequence}}) => [time, sequence]), [[1e9, 7], [3e9, 8]]);
    lives.look([], 12e9);
    assert.deepEqual(lives.all.map(({time}) => time), [3e9]);
    const many = new Lives();
    const rings = Array.from({length: 256}, (_, i) => ring({event_id: i, life: life(7)}));
    many.look(rings, 1e9);
    assert.ok(many.all.length <= 25 && many.all.length > 20);
    for (let i = 0; i < 10; ++i) many.look(rings, 2e9);
    assert.equal(many.all.length, 256);
  },
  "when an event's end was taken is its device's to tell"() {
    const life = {sequence: 5, rung_ns: 100, seen_ns: 0, queued_ns: 0, dispatched_ns: 0, finished_ns: 200};
    const lives = [{ring: ringKey(ring()), life}, {ring: ringKey(ring({event_id: 2})), life}];
    const steps = [{step: "taken", ring: {device: "nic0"}, event_id: 1, sequence: 5, time_ns: 260},
                   {step: "ended", ring: {device: "nic0"}, event_id: 2, sequence: 5, time_ns: 220},
                   {step: "struck", time_ns: 230}];
    const [first, second] = withTaken(lives, takenOf(steps));
    assert.deepEqual(partsOf(first.life), [["finished", 0, 100], ["taken", 100, 60]]);
    assert.deepEqual(partsOf(second.life), [["finished", 0, 100]]);
  },
  "changes are told once"() {
    assert.deepEqual(changesOf(picture(), picture()), []);
    const texts = changesOf(picture(), picture({
      gpud: {state: "gone"}, struck: 2, devices: [device({name: "nic1"})],
    })).map(({text}) => text);
    assert.deepEqual(texts, ["gpud is gone", "device nic1 came (pid 7)", "device nic0 went",
                             "faults struck 2 times"]);
    assert.deepEqual(changesOf(picture(), picture({devices: [device({silent_ns: 6e8})]})).map(({text}) => text),
                     ["device nic0 is silent"]);
    assert.deepEqual(changesOf(picture(), picture({devices: [device({pid: 8})]})).map(({text}) => text),
                     ["device nic0 came anew (pid 8)"]);
    assert.deepEqual(addChanges([], null, picture()), []);
  },
  "strikes have times of day, by the last picture of a living gpud"() {
    const strikes = [{time_ns: 3e9, fault: "", pid: 1, passage: 1}];
    const gone = {...picture({time_ns: 900e9, gpud: {state: "gone"}}), monotonic_ns: 4e9, strikes};
    assert.equal(withTimesOfDay(gone, null).picture.strikes[0].time_ns, null);
    const live = withTimesOfDay({...picture({time_ns: 504e9}), monotonic_ns: 4e9, strikes}, null);
    assert.equal(live.picture.strikes[0].time_ns, 503e9);
    assert.equal(live.picture.strikes[0].fault, "(taken off)");
    assert.equal(withTimesOfDay(gone, live.offset).picture.strikes[0].time_ns, 503e9);
  },
  "hostile text is shown as codes"() {
    assert.equal(visible("a\u001b[31m\u202eb\n<b>"), "a\\u001b[31m\\u202eb\\u000a<b>");
    assert.equal(duration(null), "-");
    assert.equal(duration(1500), "1.50 us");
    assert.equal(duration(999_600), "1.00 ms");
    assert.equal(duration(1234e9), "20 min 34 s");
    assert.equal(duration(7384e9), "2 h 3 min");
  },
};

for (const [name, test] of Object.entries(tests)) {
  test();
  console.log("ok", name);
}
