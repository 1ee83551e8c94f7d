/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CLUSTER_BAD_CONFIGS_H
#define TESTS_CLUSTER_BAD_CONFIGS_H

/*
 * B19: configs that are wrong in one place.  A row replaces one line of the good config, or is a
 * --set, and says what the error must name.
 */

#include <stddef.h>

static const char *const good_lines[] = {
    "{",                                                                               /* 1 */
    "  \"model\": {\"input\": [2], \"layers\": [{\"dense\": 2}], \"loss\": \"mse\"},", /* 2 */
    "  \"data\": {",                                                                   /* 3 */
    "    \"train\": {\"images\": \"images\", \"labels\": \"labels\"},",                /* 4 */
    "    \"test\": {\"images\": \"images\", \"labels\": \"labels\"},",                 /* 5 */
    "    \"train_limit\": 10,  // the first ten",                                      /* 6 */
    "    \"test_limit\": 10,",                                                         /* 7 */
    "    \"normalize\": {\"scale\": 1, \"mean\": 0, \"deviation\": 1}",                /* 8 */
    "  },",                                                                            /* 9 */
    "  \"train\": { /* {\"epochs\": 7} is a comment,",                                 /* 10 */
    "               even over two lines */ \"strategy\": \"sync\",",                   /* 11 */
    "    \"epochs\": 1,",                                                              /* 12 */
    "    \"batch\": 64,",                                                              /* 13 */
    "    \"leaf\": 32,",                                                               /* 14 */
    "    \"seed\": 1,",                                                                /* 15 */
    "    \"drop_last\": false,",                                                       /* 16 */
    "    \"optimizer\": {\"name\": \"sgd\", \"lr\": 0.1}",                             /* 17 */
    "  },",                                                                            /* 18 */
    "  \"cluster\": {",                                                                /* 19 */
    "    \"nodes\": 2,",                                                               /* 20 */
    "    \"min_nodes\": 1,",                                                           /* 21 */
    "    \"wait_s\": 60,",                                                             /* 22 */
    "    \"dead_ms\": 2500,",                                                          /* 23 */
    "    \"kernel\": \"\"",                                                            /* 24 */
    "  }",                                                                             /* 25 */
    "}",                                                                               /* 26 */
};

enum { GOOD_LINES = sizeof good_lines / sizeof *good_lines };

struct bad_config {
    unsigned replaced; /* 0: none */
    const char *with;
    const char *set; /* NULL: none */
    unsigned line;   /* of the error; 0: it is that of --set */
    const char *key;
    const char *says; /* somewhere in the rest */
};

static const struct bad_config bad_configs[] = {
    {2, "\"modell\": {},", NULL, 2, "modell",
     "the nearest is model (allowed: model, data, train, cluster)"},
    {3, "\"dta\": {", NULL, 3, "dta", "the nearest is data ("},
    {6, "\"trainlimit\": 10,", NULL, 6, "data.trainlimit",
     "nearest is data.train_limit (allowed: train, test, train_limit, test_limit, normalize)"},
    {7, "\"test-limit\": 10,", NULL, 7, "data.test-limit", "nearest is data.test_limit"},
    {8, "\"normalise\": {\"scale\": 1}", NULL, 8, "data.normalise", "nearest is data.normalize"},
    {8, "\"normalize\": {\"scal\": 1}", NULL, 8, "data.normalize.scal",
     "nearest is data.normalize.scale (allowed: scale, mean, deviation)"},
    {8, "\"normalize\": {\"std\": 1}", NULL, 8, "data.normalize.std",
     "allowed: scale, mean, deviation"},
    {4, "\"train\": {\"image\": \"images\", \"labels\": \"labels\"},", NULL, 4, "data.train.image",
     "nearest is data.train.images (allowed: images, labels)"},
    {5, "\"test\": {\"images\": \"images\", \"label\": \"labels\"},", NULL, 5, "data.test.label",
     "nearest is data.test.labels"},
    {10, "\"trian\": { /*", NULL, 10, "trian", "nearest is train "},
    {12, "\"epoch\": 1,", NULL, 12, "train.epoch",
     "nearest is train.epochs (allowed: strategy, reduce, epochs, batch, leaf, seed, drop_last, "
     "optimizer)"},
    {12, "\"epcohs\": 1,", NULL, 12, "train.epcohs", "nearest is train.epochs"},
    {12, "\"Epochs\": 1,", NULL, 12, "train.Epochs", "nearest is train.epochs"},
    {13, "\"batch_size\": 64,", NULL, 13, "train.batch_size",
     "allowed: strategy, reduce, epochs, batch"},
    {13, "\"bach\": 64,", NULL, 13, "train.bach", "nearest is train.batch"},
    {14, "\"leafs\": 64,", NULL, 14, "train.leafs", "nearest is train.leaf"},
    {15, "\"sead\": 64,", NULL, 15, "train.sead", "nearest is train.seed"},
    {16, "\"droplast\": true,", NULL, 16, "train.droplast", "nearest is train.drop_last"},
    {17, "\"optimiser\": {\"name\": \"sgd\"}", NULL, 17, "train.optimiser",
     "nearest is train.optimizer"},
    {17, "\"lr\": 0.1", NULL, 17, "train.lr", "nearest is train.optimizer.lr"},
    {17, "\"weight_decay\": 0.1", NULL, 17, "train.weight_decay",
     "nearest is train.optimizer.weight_decay"},
    {17, "\"optimizer\": {\"name\": \"sgd\", \"learning_rate\": 0.1}", NULL, 17,
     "train.optimizer.learning_rate",
     "allowed: name, lr, momentum, beta1, beta2, epsilon, weight_decay, schedule"},
    {17, "\"optimizer\": {\"name\": \"adam\", \"beta\": 0.1}", NULL, 17, "train.optimizer.beta",
     "nearest is train.optimizer.beta1"},
    {20, "\"node\": 2,", NULL, 20, "cluster.node",
     "nearest is cluster.nodes (allowed: nodes, min_nodes, wait_s, dead_ms, kernel)"},
    {21, "\"minnodes\": 2,", NULL, 21, "cluster.minnodes", "nearest is cluster.min_nodes"},
    {22, "\"wait\": 2,", NULL, 22, "cluster.wait", "nearest is cluster.wait_s"},
    {23, "\"dead\": 2,", NULL, 23, "cluster.dead", "nearest is cluster.dead_ms"},
    {24, "\"kernal\": \"\"", NULL, 24, "cluster.kernal", "nearest is cluster.kernel"},
    {20, "\"batch\": 2,", NULL, 20, "cluster.batch", "nearest is train.batch"},
    {20, "\"\": 2,", NULL, 19, "cluster.", "unknown key"},
    {12, "\"optimizer.lr\": 0.1,", NULL, 17, "train.optimizer.lr", "unknown key"},
    {26, ", \"extra\": 1}", NULL, 26, "extra", "allowed: model, data, train, cluster"},
    {2, "\"model\": [],", NULL, 2, "model", "is an array (allowed: an object"},
    {2, "\"model\": \"mlp\",", NULL, 2, "model", "is a text (allowed: an object"},
    {2, "\"model\": null,", NULL, 2, "model", "is null (allowed: an object"},
    {2, "\"model\": 3,", NULL, 2, "model", "is a whole number (allowed: an object"},
    {4, "\"train\": \"images\",", NULL, 4, "data.train", "is a text (allowed: an object)"},
    {4, "\"train\": [\"images\", \"labels\"],", NULL, 4, "data.train",
     "is an array (allowed: an object)"},
    {5, "\"test\": true,", NULL, 5, "data.test", "is true or false (allowed: an object)"},
    {4, "\"train\": {\"images\": 3, \"labels\": \"labels\"},", NULL, 4, "data.train.images",
     "3 is not allowed (allowed: the path of a file"},
    {4, "\"train\": {\"images\": \"images\", \"labels\": {}},", NULL, 4, "data.train.labels",
     "allowed: the path of a file"},
    {4, "\"train\": {\"images\": \"\", \"labels\": \"labels\"},", NULL, 4, "data.train.images",
     "allowed: the path of a file"},
    {4, "\"train\": {\"images\": null, \"labels\": \"labels\"},", NULL, 4, "data.train.images",
     "null is not allowed"},
    {6, "\"train_limit\": \"10\",", NULL, 6, "data.train_limit",
     "\"10\" is not allowed (allowed: a whole number from 0"},
    {6, "\"train_limit\": 10.5,", NULL, 6, "data.train_limit",
     "10.5 is not allowed (allowed: a whole number"},
    {6, "\"train_limit\": 1e3,", NULL, 6, "data.train_limit", "allowed: a whole number"},
    {7, "\"test_limit\": [],", NULL, 7, "data.test_limit", "[] is not allowed"},
    {8, "\"normalize\": 255", NULL, 8, "data.normalize", "is a whole number (allowed: an object)"},
    {8, "\"normalize\": {\"scale\": \"1/255\"}", NULL, 8, "data.normalize.scale",
     "\"1/255\" is not allowed (allowed: a number above 0"},
    {8, "\"normalize\": {\"mean\": false}", NULL, 8, "data.normalize.mean",
     "allowed: a number from -1e+09 and at most 1e+09"},
    {8, "\"normalize\": {\"deviation\": {}}", NULL, 8, "data.normalize.deviation",
     "allowed: a number above 0"},
    {11, "even */ \"strategy\": 1,", NULL, 11, "train.strategy",
     "1 is not allowed (allowed: sync)"},
    {11, "even */ \"strategy\": \"async\",", NULL, 11, "train.strategy",
     "\"async\" is not allowed (allowed: sync)"},
    {11, "even */ \"strategy\": \"\",", NULL, 11, "train.strategy", "allowed: sync"},
    {11, "even */ \"strategy\": \"syn\",", NULL, 11, "train.strategy", "allowed: sync"},
    {11, "even */ \"reduce\": \"ring\",", NULL, 11, "train.reduce",
     "\"ring\" is not allowed (allowed: star)"},
    {12, "\"epochs\": \"3\",", NULL, 12, "train.epochs",
     "\"3\" is not allowed (allowed: a whole number from 1 to 1000000)"},
    {12, "\"epochs\": true,", NULL, 12, "train.epochs", "true is not allowed"},
    {12, "\"epochs\": 2.0,", NULL, 12, "train.epochs", "2.0 is not allowed"},
    {12, "\"epochs\": null,", NULL, 12, "train.epochs", "null is not allowed"},
    {13, "\"batch\": [64],", NULL, 13, "train.batch",
     "[64] is not allowed (allowed: a whole number from 1 to 1048576)"},
    {13, "\"batch\": {\"size\": 64},", NULL, 13, "train.batch", "{\"size\":64} is not allowed"},
    {14, "\"leaf\": \"auto\",", NULL, 14, "train.leaf", "allowed: a whole number from 0 to 65536"},
    {15, "\"seed\": 0.5,", NULL, 15, "train.seed", "0.5 is not allowed"},
    {15, "\"seed\": \"one\",", NULL, 15, "train.seed", "\"one\" is not allowed"},
    {16, "\"drop_last\": 1,", NULL, 16, "train.drop_last",
     "1 is not allowed (allowed: true or false)"},
    {16, "\"drop_last\": \"false\",", NULL, 16, "train.drop_last",
     "\"false\" is not allowed (allowed: true or false)"},
    {16, "\"drop_last\": null,", NULL, 16, "train.drop_last", "null is not allowed"},
    {17, "\"optimizer\": \"adam\"", NULL, 17, "train.optimizer", "is a text (allowed: an object)"},
    {17, "\"optimizer\": {\"name\": \"adamw\"}", NULL, 17, "train.optimizer.name",
     "\"adamw\" is not allowed (allowed: one of sgd momentum adam)"},
    {17, "\"optimizer\": {\"name\": \"SGD\"}", NULL, 17, "train.optimizer.name",
     "allowed: one of sgd"},
    {17, "\"optimizer\": {\"name\": 0}", NULL, 17, "train.optimizer.name", "allowed: one of sgd"},
    {17, "\"optimizer\": {\"lr\": \"0.1\"}", NULL, 17, "train.optimizer.lr",
     "\"0.1\" is not allowed (allowed: a number above 0"},
    {20, "\"nodes\": \"two\",", NULL, 20, "cluster.nodes", "allowed: a whole number from 1 to 64"},
    {22, "\"wait_s\": false,", NULL, 22, "cluster.wait_s",
     "allowed: a whole number from 1 to 86400"},
    {24, "\"kernel\": 3", NULL, 24, "cluster.kernel", "3 is not allowed (allowed: a text"},
    {24, "\"kernel\": \"Sky Lake\"", NULL, 24, "cluster.kernel", "\"Sky Lake\" is not allowed"},
    {24, "\"kernel\": \"a\\u001b[2J\"", NULL, 24, "cluster.kernel", "allowed: a text"},
    {24, "\"kernel\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"", NULL,
     24, "cluster.kernel", "allowed: a text of up to 63"},
    {6, "\"train_limit\": -1,", NULL, 6, "data.train_limit", "-1 is not allowed"},
    {7, "\"test_limit\": 2000000000000000,", NULL, 7, "data.test_limit",
     "2000000000000000 is not allowed"},
    {8, "\"normalize\": {\"scale\": 0}", NULL, 8, "data.normalize.scale",
     "0 is not allowed (allowed: a number above 0"},
    {8, "\"normalize\": {\"scale\": -1}", NULL, 8, "data.normalize.scale", "-1 is not allowed"},
    {8, "\"normalize\": {\"deviation\": 0.0}", NULL, 8, "data.normalize.deviation",
     "0.0 is not allowed"},
    {8, "\"normalize\": {\"mean\": 1e300}", NULL, 8, "data.normalize.mean", "1e300 is not allowed"},
    {12, "\"epochs\": 0,", NULL, 12, "train.epochs",
     "0 is not allowed (allowed: a whole number from 1"},
    {12, "\"epochs\": -3,", NULL, 12, "train.epochs", "-3 is not allowed"},
    {12, "\"epochs\": 1000001,", NULL, 12, "train.epochs", "1000001 is not allowed"},
    {12, "\"epochs\": 4294967297,", NULL, 12, "train.epochs", "4294967297 is not allowed"},
    {13, "\"batch\": 0,", NULL, 13, "train.batch", "0 is not allowed"},
    {13, "\"batch\": -64,", NULL, 13, "train.batch", "-64 is not allowed"},
    {13, "\"batch\": 1048577,", NULL, 13, "train.batch", "1048577 is not allowed"},
    {13, "\"batch\": 9223372036854775807,", NULL, 13, "train.batch",
     "9223372036854775807 is not allowed"},
    {13, "\"batch\": 1048576,", NULL, 14, "train.leaf",
     "makes 32768 leaves (allowed: at most 4096)"},
    {14, "\"leaf\": 65537,", NULL, 14, "train.leaf", "65537 is not allowed"},
    {14, "\"leaf\": -1,", NULL, 14, "train.leaf", "-1 is not allowed"},
    {15, "\"seed\": -1,", NULL, 15, "train.seed", "-1 is not allowed"},
    {17, "\"optimizer\": {\"lr\": 0}", NULL, 17, "train.optimizer.lr",
     "0 is not allowed (allowed: a number above 0"},
    {17, "\"optimizer\": {\"lr\": -0.1}", NULL, 17, "train.optimizer.lr", "-0.1 is not allowed"},
    {17, "\"optimizer\": {\"lr\": 1e9}", NULL, 17, "train.optimizer.lr",
     "allowed: a number above 0 and at most 1000"},
    {17, "\"optimizer\": {\"name\": \"momentum\", \"momentum\": 1}", NULL, 17,
     "train.optimizer.momentum", "1 is not allowed (allowed: a number from 0 and below 1)"},
    {17, "\"optimizer\": {\"name\": \"momentum\", \"momentum\": -0.5}", NULL, 17,
     "train.optimizer.momentum", "-0.5 is not allowed"},
    {17, "\"optimizer\": {\"name\": \"adam\", \"beta1\": 1.5}", NULL, 17, "train.optimizer.beta1",
     "1.5 is not allowed"},
    {17, "\"optimizer\": {\"name\": \"adam\", \"beta2\": 1}", NULL, 17, "train.optimizer.beta2",
     "1 is not allowed"},
    {17, "\"optimizer\": {\"name\": \"adam\", \"epsilon\": 0}", NULL, 17, "train.optimizer.epsilon",
     "0 is not allowed"},
    {17, "\"optimizer\": {\"weight_decay\": -1}", NULL, 17, "train.optimizer.weight_decay",
     "-1 is not allowed"},
    {17, "\"optimizer\": {\"schedule\": \"cosine\"}", NULL, 17, "train.optimizer.schedule",
     "(allowed: one of constant linear)"},
    {20, "\"nodes\": 0,", NULL, 20, "cluster.nodes", "0 is not allowed"},
    {20, "\"nodes\": 65,", NULL, 20, "cluster.nodes", "65 is not allowed"},
    {21, "\"min_nodes\": 3,", NULL, 21, "cluster.min_nodes",
     "is more than cluster.nodes (allowed: at most 2)"},
    {22, "\"wait_s\": 0,", NULL, 22, "cluster.wait_s", "0 is not allowed"},
    {23, "\"dead_ms\": 99,", NULL, 23, "cluster.dead_ms",
     "99 is not allowed (allowed: a whole number from 100 to 600000)"},
    {17, "\"optimizer\": {\"name\": \"sgd\", \"momentum\": 0.9}", NULL, 17,
     "train.optimizer.momentum", "has no meaning for sgd (allowed: with momentum)"},
    {17, "\"optimizer\": {\"name\": \"momentum\", \"beta1\": 0.9}", NULL, 17,
     "train.optimizer.beta1", "has no meaning for momentum (allowed: with adam)"},
    {2, "", NULL, 1, "model", "is missing (allowed: it must be given)"},
    {4, "", NULL, 3, "data.train", "is missing"},
    {4, "\"train\": {},", NULL, 4, "data.train.images", "is missing"},
    {4, "\"train\": {\"images\": \"images\"},", NULL, 4, "data.train.labels", "is missing"},
    {5, "\"test\": {\"images\": \"images\"},", NULL, 5, "data.test.labels",
     "is missing (allowed: images and labels, or no data.test)"},
    {5, "\"test\": {},", NULL, 5, "data.test.images", "is missing"},
    {4, "\"train\": {\"images\": \"nowhere\", \"labels\": \"labels\"},", NULL, 4,
     "data.train.images", "/nowhere: No such file or directory (allowed: the path of a file)"},
    {4, "\"train\": {\"images\": \"images\", \"labels\": \".\"},", NULL, 4, "data.train.labels",
     "Is a directory"},
    {5, "\"test\": {\"images\": \"/nowhere/at/all\", \"labels\": \"labels\"},", NULL, 5,
     "data.test.images", "cannot read /nowhere/at/all: No such file"},
    {5, "\"test\": {\"images\": \"empty\", \"labels\": \"labels\"},", NULL, 5, "data.test.images",
     "the file is empty"},
    {0, NULL, "train.epochs=0", 0, "train.epochs", "0 is not allowed"},
    {0, NULL, "train.epochs=many", 0, "train.epochs",
     "\"many\" is not allowed (allowed: a whole number from 1 to 1000000)"},
    {0, NULL, "train.epochs=", 0, "train.epochs", "\"\" is not allowed"},
    {0, NULL, "train.epoch=3", 0, "train.epoch", "the nearest is train.epochs"},
    {0, NULL, "train.lr=0.1", 0, "train.lr", "the nearest is train.optimizer.lr"},
    {0, NULL, "train.optimizer.lr=NaN", 0, "train.optimizer.lr", "\"NaN\" is not allowed"},
    {0, NULL, "train.optimizer.lr=1e999", 0, "train.optimizer.lr", "is not allowed"},
    {0, NULL, "train=3", 0, "train", "is a whole number (allowed: an object)"},
    {0, NULL, "train.epochs.x=3", 0, "train.epochs", "{\"x\":3} is not allowed"},
    {0, NULL, "cluster.min_nodes=9", 0, "cluster.min_nodes", "is more than cluster.nodes"},
    {0, NULL, "model=3", 0, "model", "is a whole number"},
    {0, NULL, "x=1", 0, "x", "unknown key"},
    {0, NULL, "data.train.images=nowhere", 0, "data.train.images", "cannot read"},
    {0, NULL, "train.epochs", 0, "train.epochs", "not a setting (allowed: section.key=value)"},
    {0, NULL, "=3", 0, "=3", "not a setting"},
    {0, NULL, "train..epochs=3", 0, "train.", "unknown key"},
};

enum { BAD_CONFIGS = sizeof bad_configs / sizeof *bad_configs };

#endif
