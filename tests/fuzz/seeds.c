/* SPDX-License-Identifier: BSD-3-Clause */
/* seeds: writes one good example of each kind, from which the fuzzer starts.   seeds FOLDER */
#include "fuzz.h"

#include <sys/stat.h>

#include "wire/card.h"
#include "wire/envelope.h"
#include "wire/row.h"
#include "wire/table.h"
#include "with_messages.h"

static const char *root;

static void save(const char *kind, int number, const char *prefix, size_t prefix_bytes, const void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/seed-%02d", root, kind, number);
    FILE *file = fopen(path, "wb");
    MUST(file != NULL);
    fwrite(prefix, 1, prefix_bytes, file);
    fwrite(data, 1, bytes, file);
    MUST(fclose(file) == 0);
}

static void messages(void)
{
    uint8_t out[WIRE_MESSAGE_MAX];
    int number = 100;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++)
        for (enum extreme x = LEAST; x <= MOST; x++) {
            struct wire_message m = specimen_of(type, x, WIRE_VERSION);
            save("wire", number++, "\0", 1, out, wire_encode(&m, out));
        }
}

static void rows_and_envelopes(void)
{
    uint8_t out[WIRE_ROW_BYTES], sealed[ENVELOPE_BYTES + 1] = {0};
    struct wire_row row = {.engine = "prefill0",
                           .role = BATON_ROLE_PREFILL,
                           .tp = 2,
                           .pp = 1,
                           .num_boxes = 1,
                           .box = {{0, 2, 0, 4, 0}},
                           .number = 3,
                           .card_bytes = 100};
    struct envelope_counts c = {.sent = 7, .consumed = 2};
    const struct envelope_route route = {5, 1};
    wire_row_encode(&row, out);
    save("wire", 50, "\1", 1, out, sizeof out);
    envelope_seal(&c, route, sealed, 1);
    save("wire", 51, "\2", 1, sealed, sizeof sealed);
    envelope_seal(&c, route, sealed, 0);
    save("wire", 52, "\2", 1, sealed, ENVELOPE_BYTES);
}

static void cards(void)
{
    static uint8_t out[WIRE_CARD_MAX];
    for (unsigned layout = 0; layout < 16; layout++) {
        baton_tensor_t tensors[2];
        baton_geometry_t g = {
            .size = sizeof g,
            .model = "m",
            .dtype = "bf16",
            .elem_bytes = 2,
            .planes = 2,
            .head_size = 8,
            .layers_total = 2,
            .layer_count = 2,
            .num_groups = 1,
            .groups = {{BATON_KIND_FULL, 4, 8, 0, 0}, {BATON_KIND_WINDOW, 2, 8, 6, 0}, {BATON_KIND_STATE, 1, 4, 0, 0}},
            .num_splits = 1,
            .splits = {{4, 0, 4}, {1, 0, 1}}};
        if (baton_geometry_layout(&g, tensors, layout) != 0)
            continue;
        if (layout % 2 == 1) {
            g.num_groups = 3;
            g.num_splits = 2;
            tensors[1].group = 1 + layout % 4 / 2;
            tensors[1].split = 1;
        }
        struct wire_card card = {.member = 1,
                                 .board_offset = 4096,
                                 .board_slots = 4,
                                 .arena_offset = 8192,
                                 .arena_bytes = 4096,
                                 .pool_offset = 65536,
                                 .pool_bytes = g.bytes,
                                 .has_geometry = layout != 15,
                                 .geometry = g};
        struct wire_region regions[2] = {{UINT64_C(1) << 32, g.bytes, WIRE_NO_FILE, 0, 0, 0, BATON_MEMORY_HOST, 0},
                                         {UINT64_C(1) << 33, 4096, 7, 8, 9, 4096, BATON_MEMORY_SHARED, 0}};
        if (layout % 4 == 2) { /* its engine owns the memory */
            card.num_regions = 2;
            card.regions = regions;
        }
        int n = wire_card_encode(&card, out, sizeof out);
        MUST(n > 0);
        save("card", (int)layout, "", 0, out, (size_t)n);
    }
}

static void tables(void)
{
    uint8_t out[256];
    const uint32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
    for (uint32_t n = 1; n <= 8; n++) {
        const char head[] = {(char)n, 16, 2, 4};
        struct plan_tables one = {.num = 1, .table = {{ids, n, 0}}},
                           two = {.num = 2, .table = {{ids, n, 0}, {ids, 1, 8 * n}}};
        wire_table_encode(2, 5, &one, out);
        save("table", (int)n, head, sizeof head, out, wire_table_bytes(wire_table_entries(&one)));
        wire_table_encode(2, 5, &two, out);
        save("table", (int)(10 + n), head, sizeof head, out, wire_table_bytes(wire_table_entries(&two)));
    }
}

static void texts(void)
{
    static const char *const traces[] = {
        "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [0, 1]}\n"
        "{\"timestamp\": 5, \"input_length\": 20, \"output_length\": 3, \"hash_ids\": [4]}\n",
        "{\"timestamp\": 1, \"input_length\": \"many\", \"output_length\": 1, \"hash_ids\": [2]}\n", "[]\n", "{}\n"};
    static const char *const lines[] = {"--prefill\n2x4\n--decode\n1x8x2\n-x\nA=b\n--timeout\n7\nprog\n--layers\n3",
                                        "--survive\n-n\n--prefill\n0x0\n--\nprog", "--help", "--bogus",
                                        "--prefill\n1x99999\nprog"};
    static const char *const hosts[] = {
        "\010a:4,b:4,c",
        "\001n0 slots=4 # left\nroot@n1:2\nn2 max_slots=8\n",
        "\002gpu[008-010,3],rack[1-2]n[01-02],login\n4(x2),1,2(x6)",
        "\003SwitchName=a Nodes=n[0-3]\nSwitchName=b Switches=a\n",
        "\0042x4x1 4x2x1",
        "\005C8:0.4.1.0,1.1.4.1:0.4.2.1:0.8.1.0:2.8.1.0:0.1.8.2:1.1.8.2 G0.4.0.cuda0 E4.8.0.mlx5_0",
        "\006cache 1\nnode 2.5 # measured\n\nfar 1e2",
        "\0070-7,32-39/mlx5_0:1|8-15/#0,1x64;1"};
    static const char *const reports[] = {
        "\n@baton-info 0 p\twhat\\tever\tdo\\nthis\tsaid\n\n@baton-info 0 f\tall\tmpi\tlibrary\tOpen MPI\n"
        "\n@baton-info 0 e\t2\n",
        "UCX  WARN\n@baton-info 4294967295 f\tnode\ta\tb\t\\\n@baton-info 1 e\t18446744073709551616\n"};
    for (int i = 0; i < 2; i++)
        save("report", i, "", 0, reports[i], strlen(reports[i]));
    for (int i = 0; i < 4; i++)
        save("trace", i, "", 0, traces[i], strlen(traces[i]));
    for (int i = 0; i < 5; i++)
        save("arguments", i, "", 0, lines[i], strlen(lines[i]));
    for (int i = 0; i < 8; i++)
        save("hosts", i, "", 0, hosts[i], strlen(hosts[i]));
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    root = argv[1];
    messages();
    rows_and_envelopes();
    cards();
    tables();
    texts();
    return 0;
}
